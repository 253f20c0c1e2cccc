"""Problem 78: the seconds of an operation, the rate of decoding, and the best mesh, from the rates of a machine."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

# Quotients of float64 numbers. Programs that add and multiply in another order differ in the last bits.
DIGITS = Tolerance(rtol=1e-9, atol=0.0)
LIMITS = ("arithmetic", "memory", "sending")
DEVICE = ("flops", "bandwidth", "memory", "link", "network_bits", "node")
MODEL = (
    "vocab_size", "d_model", "d_ff", "num_layers", "num_heads", "kv_heads", "head_width", "experts", "active",
    "weight_bits", "cache_bits",
)  # fmt: skip
SECONDS, RATE, STEP, MESH = "seconds", "decode_rate", "step_seconds", "best_mesh"

# NVIDIA's data sheet: 1,979 TFLOPS with sparsity; NVLink has 900 GB/s in both directions together. The network is that
# of a DGX H100.
H100 = {
    "flops": 989e12, "bandwidth": 3.35e12, "memory": 80e9, "link": 450e9, "network_bits": 400e9, "node": 8,
}  # fmt: skip


def sized(V: int, D: int, F: int, L: int, H: int, G: int, K: int, E: int = 1, k: int = 1) -> dict[str, int]:
    """A model with these sizes, in 16 bits."""
    return dict(zip(MODEL, (V, D, F, L, H, G, K, E, k, 16, 16), strict=True))


LLAMA_8B = sized(128_256, 4096, 14_336, 32, 32, 8, 128)
LLAMA_70B = sized(128_256, 8192, 28_672, 80, 64, 8, 128)
QWEN_30B = sized(151_936, 2048, 768, 48, 32, 4, 128, 128, 8)

# The decisions: a question, what there is to choose from, and for each choice the arguments of the entry that decides.
# A limit is chosen by its name, a rate by the larger one, a mesh by its number of `data`.
PRODUCTS = {
    "What limits a product of 1 row with a (4,096, 4,096) matrix?": ("product", (1, 4096, 4096)),
    "What limits a product of 128 rows with it?": ("product", (128, 4096, 4096)),
    "What limits a product of 4,096 rows with it?": ("product", (4096, 4096, 4096)),
    "What limits adding two arrays of 100 million numbers?": ("add", (100_000_000,)),
}
RATES: dict[str, dict[str, tuple[dict[str, int], int, int, dict[str, float]]]] = {
    "Llama 8B writes one text of 1,024 tokens. Which helps more?": {
        "weights of 8 bits": ({**LLAMA_8B, "weight_bits": 8}, 1, 1024, H100),
        "twice the operations per second": (LLAMA_8B, 1, 1024, {**H100, "flops": 2 * H100["flops"]}),
    },
    "It writes 24 texts of 16,384 tokens. Which helps more?": {
        "weights of 8 bits": ({**LLAMA_8B, "weight_bits": 8}, 24, 16_384, H100),
        "a cache of 8 bits": ({**LLAMA_8B, "cache_bits": 8}, 24, 16_384, H100),
    },
    "Which writes one text of 1,024 tokens faster?": {
        "Llama 8B": (LLAMA_8B, 1, 1024, H100),
        "Qwen3 30B-A3B": (QWEN_30B, 1, 1024, H100),
    },
    "Which writes 64 such texts faster?": {
        "Llama 8B": (LLAMA_8B, 64, 1024, H100),
        "Qwen3 30B-A3B": (QWEN_30B, 64, 1024, H100),
    },
    "Which Llama 70B can one H100 run at all?": {
        "the one of 16 bits": (LLAMA_70B, 1, 1024, H100),
        "the one of 4 bits": ({**LLAMA_70B, "weight_bits": 4}, 1, 1024, H100),
    },
}
MESHES = {
    "The best mesh for Llama 8B, 2,048 texts of 4,096 tokens, 64 devices?": (LLAMA_8B, 2048, 4096, H100, 64),
    "The best mesh for Llama 8B, 32 texts of 4,096 tokens, 64 devices?": (LLAMA_8B, 32, 4096, H100, 64),
    "The best mesh for Llama 70B, 512 texts of 4,096 tokens, 512 devices?": (LLAMA_70B, 512, 4096, H100, 512),
}
QUESTIONS = (*PRODUCTS, *RATES, *MESHES)


def short(number: float) -> float:
    """A number with three digits, as data sheets have them."""
    return float(f"{number:.3g}")


def device(sizes: Mapping[str, int], rng: Any) -> dict[str, float]:
    """A machine that does `intensity` operations in the time in which it moves a byte."""
    flops = float(rng.integers(20, 900)) * 1e12
    bandwidth = short(flops / sizes.get("intensity", 100))
    link = short(bandwidth / float(rng.integers(4, 9)))
    return {
        "flops": flops, "bandwidth": bandwidth, "memory": 1e18, "link": link,
        "network_bits": short(link * float(rng.integers(2, 6))), "node": int(sizes.get("node", 4)),
    }  # fmt: skip


def product(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    shape = tuple(sizes[name] for name in "MCN")
    return {"op": "product", "shape": repr(shape), "bits": sizes["bits"], **device(sizes, rng)}


def addition(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    shape = tuple(sizes[name] for name in "MNC")[: sizes["axes"]]
    return {"op": "add", "shape": repr(shape), "bits": sizes["bits"], **device(sizes, rng)}


def collective(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    op = ("all_gather", "reduce_scatter", "all_reduce")[sizes["kind"]]
    devices = sizes["devices"]
    shape = (devices * int(rng.integers(50, 900)) + devices // 2, devices)  # no multiple of the devices
    return {"op": op, "shape": repr(shape), "bits": sizes["bits"], **device(sizes, rng)}


def model(sizes: Mapping[str, int], rng: Any) -> dict[str, int]:
    """A model of which no size follows from another: heads are not as wide as D / H."""
    G = sizes.get("G", 3)
    E, k = sizes.get("E", 1), sizes.get("k", 1)
    return {
        "vocab_size": sizes.get("V") or int(rng.integers(500, 3000)),
        "d_model": sizes.get("D") or int(rng.integers(40, 90)),
        "d_ff": sizes.get("F") or int(rng.integers(91, 300)),
        "num_layers": sizes["L"],
        "num_heads": G * (sizes.get("queries") or int(rng.integers(2, 6))),
        "kv_heads": G,
        "head_width": int(rng.integers(9, 31)),
        "experts": E,
        "active": k,
        "weight_bits": sizes.get("bits", 16),
        "cache_bits": sizes.get("cache_bits", 16),
    }


def decoding(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**model(sizes, rng), "batch": sizes["batch"], "context": sizes["context"], **device(sizes, rng)}


def crowded(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A machine whose memory holds so many percent of weights and cache."""
    values = decoding(sizes, rng)
    L, D, K = values["num_layers"], values["d_model"], values["head_width"]
    layer = 2 * D * K * (values["num_heads"] + values["kv_heads"]) + values["experts"] * D * values["d_ff"] * 3
    weights = (L * layer + values["vocab_size"] * D) * values["weight_bits"] / 8
    cache = values["batch"] * values["context"] * values["kv_heads"] * K * L * values["cache_bits"] / 4
    return {**values, "memory": short((weights + cache) * sizes["percent"] / 100)}


def two_precisions(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A cache of fewer bits than the weights, unless the memory is nearly large enough."""
    return crowded({**sizes, "cache_bits": 16 if sizes["percent"] == 95 else 8}, rng)


def training(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A step of which sending takes about `percent` of the time for arithmetic, within a node."""
    machine, values = device(sizes, rng), model(sizes, rng)
    data, tensor = sizes["data"], sizes["tensor"]
    batch = data * int(rng.integers(2, 5))
    tokens = batch * sizes["context"]
    machine["link"] = short(machine["flops"] * data * values["weight_bits"] / 16 / tokens * 100 / sizes["percent"])
    machine["network_bits"] = short(machine["link"] * 4)
    return {**values, "batch": batch, "context": sizes["context"], "data": data, "tensor": tensor, **machine}


def choosing(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Devices to divide, with a batch of so many quarters of them. The shorter the context and the slower the links,
    the more tensor parallelism pays off."""
    devices, batch = sizes["devices"], sizes["devices"] * sizes["quarters"] // 4
    # With three quarters, `tensor` must be 4 or more.
    machine, values = device(sizes, rng), model({**sizes, "G": 4} if sizes["quarters"] == 3 else sizes, rng)
    machine["link"] = short(machine["flops"] * devices / (batch * sizes["context"] * sizes.get("slow", 1)))
    machine["network_bits"] = short(machine["link"] * 2)
    return {**values, "batch": batch, "context": sizes["context"], "devices": devices, **machine}


def nothing(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"decisions": len(QUESTIONS)}


def limit_in_words(case: Case, wrong: Difference) -> str:
    """A sentence on a wrong time or limit of an operation."""
    if wrong.path.endswith("limit"):
        got, expected = (LIMITS[int(each)] for each in (wrong.got, wrong.expected))
        return f"`{SECONDS}` names {got!r} as the limit, expected {expected!r}"
    return f"`{SECONDS}` returned {wrong.got} s, expected {wrong.expected} s"


def mesh_in_words(case: Case, wrong: Difference) -> str:
    """A sentence on a wrong part of a mesh."""
    part = ("data", "tensor")[wrong.index[0]]
    return f"`{part}` of the best mesh is {wrong.got}, expected {wrong.expected}"


def decision_in_words(case: Case, wrong: Difference) -> str:
    """The question, and the two answers."""
    question = QUESTIONS[wrong.index[0]]
    got, expected = (answer(question, int(each)) for each in (wrong.got, wrong.expected))
    return f"decision {wrong.index[0] + 1}: {question} Your functions say: {got}; expected: {expected}"


def answer(question: str, number: int) -> str:
    """A decision in words."""
    if question in PRODUCTS:
        return LIMITS[number]
    if question in RATES:
        return [*RATES[question], "neither"][number]
    return f"data = {number}"


def number(name: str, points: int, entry: str, cases: str) -> Check:
    return Check(
        name, points, "counting", {"entry": entry}, "number", cases, tolerance=DIGITS, calls=(entry,),
        in_words=lambda _, wrong: f"`{entry}` returned {wrong.got}, expected {wrong.expected}",
    )  # fmt: skip


def operation(name: str, points: int, cases: str) -> Check:
    return Check(
        name, points, "timing", leaves="operation", cases=cases, tolerance=DIGITS, calls=(SECONDS,),
        in_words=limit_in_words,
    )  # fmt: skip


SMALL = {"L": (2, 3), "G": (3, 2), "bits": (16, 8), "cache_bits": (8, 16)}
EXPERTS = {"E": (8, 12), "k": (2, 3)}

PROBLEM = Problem(
    title="Roofline",
    minutes=110,
    builds_on=(23, 47),
    entries=(
        Entry(SECONDS, ("op", "shape", "bits", "device"), returns=("seconds", "limit")),
        Entry(RATE, ("model", "batch", "context", "device")),
        Entry(STEP, ("model", "batch", "context", "device", "mesh")),
        Entry(MESH, ("model", "batch", "context", "device", "devices"), returns=("data", "tensor")),
    ),
    cases={
        "products": Cases(
            product, {"M": (3, 1, 700), "C": (5, 512), "N": (7, 640), "bits": (16, 8, 32), "intensity": (1, 40, 200)},
            draws=6, covers=("one",),
        ),
        "four bits": Cases(
            product, {"M": (3, 1), "C": (5, 512), "N": (7, 640), "bits": (4,), "intensity": (200,)}, draws=2
        ),
        "additions": Cases(
            addition,
            {"axes": (3, 1, 2), "M": (3, 900), "N": (5, 70), "C": (7, 2), "bits": (16, 8), "intensity": (150,)},
            draws=3,
        ),
        "collectives": Cases(
            collective, {"kind": (0, 1, 2), "devices": (3, 4, 6, 16), "bits": (16, 8), "node": (4, 8)}, draws=8
        ),
        "one device": Cases(collective, {"kind": (2, 0), "devices": (1,), "bits": (16,)}, draws=2),
        "one text": Cases(decoding, {**SMALL, "batch": (1,), "context": (20, 900), "intensity": (100,)}, draws=2),
        "batches": Cases(
            decoding, {**SMALL, "batch": (5, 40), "context": (30, 3000), "intensity": (100, 1)}, draws=5
        ),
        "experts": Cases(
            decoding, {**SMALL, **EXPERTS, "batch": (1, 4, 50), "context": (10, 300), "intensity": (100, 2)}, draws=6
        ),
        "crowded": Cases(
            two_precisions,
            {"L": (2, 3), "G": (3, 2), "batch": (3,), "context": (800,), "percent": (95, 105, 140, 10),
             "intensity": (100,)},
            draws=4,
        ),
        "crowded experts": Cases(
            crowded,
            {**SMALL, **EXPERTS, "V": (200,), "batch": (2,), "context": (20,), "percent": (80, 140, 10)},
            draws=4,
        ),
        # As large as the largest open models, but for odd sizes.
        "large": Cases(
            decoding,
            {"L": (61,), "V": (129_281,), "D": (7_169,), "F": (2_049,), "G": (8,), "E": (257,), "k": (8,),
             "bits": (4,), "cache_bits": (8,), "batch": (200,), "context": (60_000,), "intensity": (300,)},
            draws=1, covers=("layers", "vocabulary"),
        ),
        "training": Cases(
            training,
            {"L": (2, 3), "G": (4,), "bits": (16, 32), "context": (40, 900), "data": (3, 4), "tensor": (4, 2),
             "node": (16, 4), "percent": (60, 600)},
            draws=8,
        ),
        "data alone": Cases(
            training,
            {"L": (2,), "G": (4,), "bits": (16,), "context": (200,), "data": (4, 8), "tensor": (1,), "node": (8, 4),
             "percent": (300, 30)},
            draws=3,
        ),
        "training of experts": Cases(
            training,
            {"L": (2,), "G": (2,), "E": (8,), "k": (2,), "bits": (16,), "context": (90,), "data": (4,), "tensor": (2,),
             "node": (8, 2), "percent": (2, 100)},
            draws=3,
        ),
        "meshes": Cases(
            choosing,
            {"L": (2, 3), "G": (4, 2, 8), "bits": (16,), "context": (4, 100, 700), "devices": (8, 16, 64),
             "quarters": (4, 2, 3, 16), "node": (8, 4)},
            draws=14,
        ),
        "few heads": Cases(
            choosing,
            {"L": (2,), "G": (6, 8), "queries": (4,), "bits": (16,), "context": (4,), "devices": (12, 16),
             "quarters": (2,), "node": (16, 3), "slow": (40,)},
            draws=2,
        ),
        "decisions": Cases(nothing, {"decisions": (12,)}, draws=1),
    },
    checks=(
        operation("seconds of a product", 2, "products"),
        operation("numbers of four bits", 1, "four bits"),
        operation("seconds of an addition", 1, "additions"),
        operation("seconds of sending", 2, "collectives"),
        operation("one device sends nothing", 1, "one device"),
        number("rate of one text", 1, RATE, "one text"),
        number("rate of a batch", 2, RATE, "batches"),
        number("rate of a mixture of experts", 2, RATE, "experts"),
        number("what does not fit", 1, RATE, "crowded"),
        number("experts that do not fit", 1, RATE, "crowded experts"),
        number("a model of hundreds of billions", 1, RATE, "large"),
        number("seconds of a step", 2, STEP, "training"),
        number("a step without tensor parallelism", 1, STEP, "data alone"),
        number("a step of a mixture of experts", 1, STEP, "training of experts"),
        Check("best mesh", 2, "choosing", leaves="mesh", cases="meshes", tolerance=DIGITS, calls=(MESH,),
              in_words=mesh_in_words),
        Check("best mesh of uneven sizes", 1, "choosing", leaves="mesh", cases="few heads",
              tolerance=DIGITS, calls=(MESH,), in_words=mesh_in_words),
        Check("twelve decisions", 3, "deciding", leaves="decisions", cases="decisions", tolerance=DIGITS,
              calls=(SECONDS, RATE, MESH), in_words=decision_in_words),
    ),
)  # fmt: skip
