"""Flags of XLA that compile tiny programs fast, for the environment. Needs no JAX, which reads them only once."""

import importlib.metadata

# Programs are tiny, so they should compile fast rather than run fast; even those of problem 32, which trains for 200
# steps. All workers use the same flags. Without the newer emitters for fusions, compiling takes a third of the time;
# XLA ignores an extra option that it does not know.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
)
# Saves another quarter. XLA aborts on a flag that it does not know, so only tested versions get this one.
if importlib.metadata.version("jaxlib").startswith(("0.10.", "0.11.", "0.12.")):
    QUICK_TO_COMPILE += " --xla_cpu_parallel_codegen_split_count=1"
