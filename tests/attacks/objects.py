"""Returns what pretends to be an array, or a number that equals all others."""

from tests.attacks.attack import Attack, in_call

_PRETEND = """
import numpy as np, jax, jax.numpy as jnp
class Agreeable:
    shape, dtype, ndim, size = (), np.dtype('float32'), 0, 1
    __eq__ = __ge__ = __le__ = lambda self, other: True
    __ne__ = __gt__ = __lt__ = lambda self, other: False
    __hash__ = None
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0.0
    def __array__(self, *args, **kwargs): return np.float32(0)
    def __float__(self): return 0.0
class Sub(np.ndarray):
    __eq__ = Agreeable.__eq__
    __sub__ = __rsub__ = Agreeable.__sub__
"""


def _returns(value: str, *verdicts: str, says: str = "") -> Attack:
    return Attack(_PRETEND + in_call("ran()", f"return {value}"), verdicts or ("FAIL",), says)


ATTACKS = {
    "equal to everything": _returns("Agreeable()"),
    "an array of another class": _returns("np.zeros((), np.float32).view(Sub)", says="returned a"),
    "an object with __jax_array__": _returns(
        "type('J', (), {'__jax_array__': lambda self: jnp.float32(0)})()", "FAIL", "ERROR"
    ),
    "not a number": _returns("logits.sum() * jnp.nan", says="is nan, expected"),
    "infinity": _returns("jnp.float32(jnp.inf) + 0 * logits.sum()", says="is inf, expected"),
    "a NaN for each case": _returns("jnp.where(logits.sum() > 0, jnp.nan, -jnp.inf)"),
    "a masked array": _returns("np.ma.masked_array(0.0, True)"),
    "an array of objects": _returns("np.array([None, Agreeable], object)"),
    "a structured array": _returns("np.zeros((), [('x', 'f4')])"),
    "a text": _returns("'PASS'"),
    "a boolean": _returns("True"),
    "a generator without end": _returns("iter(lambda: 0.0, 1.0)"),
    "a tree node of its own": Attack(
        _PRETEND
        + "class Node: pass\njax.tree_util.register_pytree_node(Node, lambda node: (ran(), ((), None))[1], lambda *a: Node())\n"
        + in_call("ran()", "return Node()")
    ),
    "a dictionary that lies about its keys": _returns(
        "type('D', (dict,), {'items': lambda self: [('output', 0.0)]})()"
    ),
    "a number of another class": _returns(
        "type('F', (float,), {'__eq__': lambda *a: True, '__hash__': None})(0)", "FAIL"
    ),
}
