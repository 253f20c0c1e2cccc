"""Probes of problem 41: a model that has been loaded, files with a fault, and logits of small embeddings. Run in
workers."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from grader.authoring import Arrays, Reading, Subject, ToyGPT, eager, filled, given, named
from grader.problem import Case

# Names, and the last layer as a whole.
MISSING = ("wpe.weight", "h.0.attn.c_attn.bias", "h.0.ln_2.bias", "h.0.mlp.c_proj.weight", "ln_f.weight", "h.1.")


def tensors_of(case: Case, prefix: str = "") -> Arrays:
    """The arrays of a GPT-2 by their names."""
    values = case.values
    V, T, D, F, L = (int(values[k]) for k in ("vocab_size", "context", "d_model", "d_ff", "num_layers"))
    layers = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, F), "mlp.c_proj": (F, D)}
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (V, D), "wpe.weight": (T, D)}
    for i in range(L):
        shapes |= {f"h.{i}.{name}.weight": shape for name, shape in layers.items()}
        shapes |= {f"h.{i}.{name}.bias": shape[-1:] for name, shape in layers.items()}
        shapes |= {f"h.{i}.{name}.{kind}": (D,) for name in ("ln_1", "ln_2") for kind in ("weight", "bias")}
    shapes |= {"ln_f.weight": (D,), "ln_f.bias": (D,)}
    return {prefix + name: filled(name, shape, np.float32, case.seed) for name, shape in shapes.items()}


def load(subject: Subject, case: Case, tensors: Arrays, model: Any) -> None:
    """Calls the entry."""
    subject.call("load_gpt2", tensors, model)


@eager
def loading(subject: Subject, case: Case, *, prefix: str, others: bool = False) -> Reading:
    """The parameters of a model that has been loaded. `others` adds arrays that are no parameters."""
    tensors, model = tensors_of(case, prefix), ToyGPT.of(case)
    if others:
        T = int(case.values["context"])
        for i in range(len(model.blocks)):
            tensors[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, T, T), np.float32))
            tensors[f"h.{i}.attn.masked_bias"] = np.float32(-1e4)
        tensors["lm_head.weight"] = tensors["wte.weight"].copy()
    load(subject, case, tensors, model)
    return Reading(named(nnx.state(model, nnx.Param), "parameters"))


def faint(subject: Subject, case: Case) -> Reading:
    """The logits of a model with numbers so small that the epsilon of a norm matters. The head has the same embeddings.

    Small embeddings are what the first norm sees; if the sublayers add little, too, all others see small numbers.
    """
    graphdef, parameters, rest = subject.build("GPT2", case)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        def logits(prefix: str, *small: str) -> Arrays:
            faint = nnx.to_flat_state(jax.tree.map(lambda array: array, parameters))
            for path, parameter in faint:
                if any(name in path for name in small):
                    parameter[...] = parameter[...] * 0.01
            model: Any = nnx.merge(graphdef, nnx.from_flat_state(faint), rest)
            return {name: leaf * 100 for name, leaf in named(model(token_ids), prefix).items()}

        embeddings = ("embed", "pos_embed")
        return logits("logits.small_embeddings", *embeddings) | logits(
            "logits.small_stream", *embeddings, "out_proj", "ff2"
        )

    return subject.run(program, case, parameters, given(case, "token_ids"))


@eager
def failing(subject: Subject, case: Case) -> Reading:
    """For each fault, whether the right error was raised: numbers of `RAISED`."""

    model = ToyGPT.of(case)

    def raised(kind: type[Exception], tensors: Arrays) -> np.int32:
        try:
            load(subject, case, tensors, model)
        except kind:
            return np.int32(1)
        except NotImplementedError:
            raise
        except Exception:
            return np.int32(2)
        return np.int32(0)

    whole = tensors_of(case)
    load(subject, case, whole, model)  # so that one that always raises gets no point
    found = {
        f"missing.{name.removesuffix('.')}": raised(
            KeyError, {k: x for k, x in whole.items() if not k.startswith(name)}
        )
        for name in MISSING
    }
    L = len(model.blocks)
    deeper = {f"h.{L}.{k.split('.', 2)[2]}": x for k, x in whole.items() if k.startswith(f"h.{L - 1}.")}
    untied = {"lm_head.weight": whole["wte.weight"] + 1}
    nearly = {"lm_head.weight": whole["wte.weight"].copy()}
    nearly["lm_head.weight"][-1, -1] = np.nextafter(nearly["lm_head.weight"][-1, -1], np.float32(np.inf))
    prefixed = {f"transformer.{name}": array for name, array in whole.items()}
    found |= {
        "unfit.one_layer_more": raised(ValueError, whole | deeper),
        "unfit.head": raised(ValueError, whole | untied),
        "unfit.head_beside_prefixed_names": raised(ValueError, untied | prefixed),
        "unfit.head_that_differs_in_one_bit": raised(ValueError, whole | nearly),
    }
    wider = {
        "wpe.weight": np.concatenate([whole["wpe.weight"]] * 2),
        "h.0.mlp.c_fc.weight": whole["h.0.mlp.c_fc.weight"][:, :-1],
        "h.0.mlp.c_proj.weight": whole["h.0.mlp.c_proj.weight"].T,  # as many numbers
        "h.0.ln_1.bias": whole["h.0.ln_1.bias"][:1],
        "h.0.attn.c_attn.weight": whole["h.0.attn.c_attn.weight"].T,
    }
    found |= {f"unfit.{name}": raised(ValueError, {**whole, name: array}) for name, array in wider.items()}
    return Reading(dict(found))


PROBES = {"loading": loading, "faint": faint, "failing": failing}
