"""Returns an object that poses as an array, or as a number that equals every other."""

from tests.attacks.attack import Attack, in_call

_IMPOSTORS = """
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


def _returns(value: str, *verdicts: str, message: str = "") -> Attack:
    return Attack(_IMPOSTORS + in_call("ran()", f"return {value}"), verdicts or ("FAIL",), message)


ATTACKS = {
    "an object that equals everything": _returns("Agreeable()"),
    "an ndarray subclass": _returns("np.zeros((), np.float32).view(Sub)", message="returned a"),
    "an object with __jax_array__": _returns(
        "type('J', (), {'__jax_array__': lambda self: jnp.float32(0)})()", "FAIL", "ERROR"
    ),
    "NaN": _returns("logits.sum() * jnp.nan", message="is nan, expected"),
    "infinity": _returns("jnp.float32(jnp.inf) + 0 * logits.sum()", message="is inf, expected"),
    "NaN or infinity, by case": _returns("jnp.where(logits.sum() > 0, jnp.nan, -jnp.inf)"),
    "a masked array": _returns("np.ma.masked_array(0.0, True)"),
    "an object array": _returns("np.array([None, Agreeable], object)"),
    "a structured array": _returns("np.zeros((), [('x', 'f4')])"),
    "a string": _returns("'PASS'"),
    "a boolean": _returns("True"),
    "an endless iterator": _returns("iter(lambda: 0.0, 1.0)"),
    "a custom pytree node": Attack(
        _IMPOSTORS + "class Node: pass\n"
        "jax.tree_util.register_pytree_node(Node, lambda node: (ran(), ((), None))[1], lambda *a: Node())\n"
        + in_call("ran()", "return Node()")
    ),
    "a dictionary that lies about its keys": _returns(
        "type('D', (dict,), {'items': lambda self: [('output', 0.0)]})()"
    ),
    "a float subclass": _returns("type('F', (float,), {'__eq__': lambda *a: True, '__hash__': None})(0)", "FAIL"),
}
