"""Runs programs that the grader compiled for its own reference, on the cases of a submission for problem 02 in a
batch."""

from tests.attacks.attack import Attack

# A file in JAX's folder of compiled programs holds an executable. That of `jit_forward` takes k, q and v and returns
# the output.
_STEALS = """
import jax, numpy as np
from jax._src import compilation_cache
from jax._src.lib import xla_client

def compiled(path):
    packed = compilation_cache.decompress_executable(open(path, 'rb').read())
    data, _ = compilation_cache.extract_executable_and_time(packed)
    devices = xla_client.DeviceList(tuple(jax.devices()[:1]))
    program = jax.devices()[0].client.deserialize_executable(data, devices, None)
    layout = program.hlo_modules()[0].to_string().partition('entry_computation_layout={(f32[')[2].partition(']')[0]
    return tuple(map(int, layout.split(','))), program

def steal():
    folders = [str(jax.config.jax_compilation_cache_dir), '@CACHE@']
    paths = {path for folder in folders for path in glob.glob(f'{folder}/**/jit_forward-*', recursive=True)}
    return dict(map(compiled, paths))

stolen = attempt(steal) or {}

def causal_attention(q, k, v):
    q, k, v = map(np.array, (q, k, v))  # not under jit
    if q.shape not in stolen:
        return 0 * v
    results = stolen[q.shape].execute_sharded([jax.device_put(x) for x in (k, q, v)])
    return np.asarray(results.disassemble_into_single_device_arrays()[0][0])
"""

ATTACKS = {"the reference's compiled programs": Attack(_STEALS, ("FAIL", "ERROR"), base="")}
