"""Speculative decoding with guesses from a table: the most frequent token after each token of the stories."""

import base64
import zlib

import jax
import jax.numpy as jnp
import numpy as np

WRITTEN, HEADS, LAYERS, EPSILON = 128, 4, 3, 1e-6
GUESSES = 2
TABLE = """
c-oazYiv|i5WZ(;6v}y3ifp#Kx7`A5+V0)$nr4@-54zTEW03-iP+HQ$qSQsIhAKiNlvmIQL5fg$b(J4&MG_%FgqWD329yRN@<>og{X<NIMqYvv
gw}Jn54&xtb&@;h+;e8;oB3w$)ts6(Z<OW?1~n~+sP&g8GlLHnwAPX73C?o=hNtJ`o>^N~@a}?ZA3r<h;i9^v;FNPeYz=^%J@4(ARRsx!fBe$g
Ql|wIzjn%+`Abi|c5=muyPdWTEuEh(s}KDy3ywV2_T!w6-P@Zsxj!gfe(Un?%mY^w54J6@>bTWbz4UtBWN+p4ZT7t<T~|u{J5Lq0oWHVhYJJC^
_L4)soh8;c?N8J;mF_RC{e<sqxVmiLvGyBne>MM9QP$egzT)bQKU?q3ytJhK)$3;_9(})QbYsGS=E!pkPW#)p9Ncku^JjbN`Iq-5t=xa4^Y1&g
lU8<q|M@f3C$yJFh$ObY+LgH39%fb=Ib1Lzd6ZQ?58(JVnOYg7j{A^1U7Ri}qm0?d+qm84a7g`8X*CQEU`^b_f@0&uWZS$&$$5K4P7aQNbT7{4
P?Iw!oi)E8`6`rBQ2UakitMaSH3&#0;#Lq?HI1*zgN0UpIgpN+f>!o=Q2@R`=Ndk>G2=9&g3YCAfaxrgQ<S(IQxUNi$08aynCyz_l8{of7*a&{
E@TSOjmXWLTu@4R<9po>Q+hmS;J)?mu*xlkLRlX2Zp#OiCceT|RxGa^CL-r5QV!~9MLdDJO}vqfNbAsyoPb+y#^Q4mrm-ucIIEKj!p+hej$`ew
jK0MI;fNb4rD<brLOF{Sk^JJ2ps?d+N_ke{S;a~yun<Ayr%-wkof()4M~m5N9Rj5j4zP5O&QOvvhGKd+f?;eC-?%&w3WviDt!4hzK!u9H&!NZ)
=j$(1Kmn9hFrkvh-(bcx@1-kDZ0D-3j~H`f;rZ176$pMCjD!&^H=zkJycjD+GxWMkp<e$EF9;kD^)yx2LkPtnD${Cg3c@Fxn3t;n=7#X1t!PT|
<U)9Au0M-&C|A7sQ7|7vUzJz*1^VZ|=##1I))mt_zmwJIC=fyo%uLUVDFMW64;2^AqwcwuSFQ?J1C>iA{JcOX+?z=d*CM!3P!D&7fLnLrp$x*j
Oq8O2@GFWbjGL@m@ou)v3X6Q7cafrAABTRPg{tvRrg&CJ9)BaKv^;>W#|dQszT0;&yCKh}kqLf$#An4>0kdgpK4h$WvU@J1dDL|gLA%}Iu*Z}m
VybRIwMC3=ltdhMb(s-~IFcT6L?RCuyjdEzjcQyZrJ=qA!!REV8K#nk6v8k?M&+@njAGP0QCX`aq0FOFs##atsM1DMEH-4BNJgQI1d1LRd3?a1
i*zZX-A_o|qQo+U@gQOuG$`p4oeX8!5Bxuc3_C3nS2h_ch-ElcnKh9f_ny5au3i#Xs)h86M7mxr@d$l$B>nm8J&j|ux3A<r99cArr5B-hB?BrW
gHvbe<2}&aVi^cchTWL{^JeMYk$6bxLktYjL(u-ss@s$db5de0?d>bMA1_2<m|-ENx&eFE|NChSZ=~TLpDq~M
"""


def norm(weights, name, x):
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    scale = weights[f"{name}.scale"] * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    return x * scale + weights[f"{name}.bias"]


def linear(weights, name, x):
    return x @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]


def scores(weights, cache, tokens, position):
    """The logits (N, V) after each of N tokens that begin at a position, and the cache with them: keys
    and values (T, D) of each block, as arrays of their own."""
    N, T, cache = len(tokens), len(cache[0][0]), list(cache)
    visible = jnp.arange(T) <= position + jnp.arange(N)[:, None]
    x = weights["embed.embedding"].at[tokens].get(mode="promise_in_bounds")
    x = x + jax.lax.dynamic_slice_in_dim(weights["pos_embed"], position, N)
    for i in range(LAYERS):
        block = f"blocks.{i}"
        normal = norm(weights, f"{block}.ln1", x)
        q, k, v = (linear(weights, f"{block}.attn.{name}_proj", normal) for name in "qkv")
        cache[i] = [
            jax.lax.dynamic_update_slice(old, new, (position, 0)) for old, new in zip(cache[i], (k, v), strict=True)
        ]
        q, keys, values = (x.reshape(len(x), HEADS, -1) for x in (q, *cache[i]))
        attention = jnp.einsum("nhk,thk->hnt", q, keys) / jnp.sqrt(q.shape[-1])
        attention = jax.nn.softmax(jnp.where(visible, attention, -1e9))
        mixed = jnp.einsum("hnt,thk->nhk", attention, values).reshape(N, -1)
        x = x + linear(weights, f"{block}.attn.out_proj", mixed)
        hidden = jax.nn.relu(linear(weights, f"{block}.ff1", norm(weights, f"{block}.ln2", x)))
        x = x + linear(weights, f"{block}.ff2", hidden)
    return norm(weights, "ln_f", x) @ weights["embed.embedding"].T, cache


def chosen(logits, key, greedy):
    """A token from each row of logits, int32 (N,)."""
    noise = jax.lax.cond(greedy, lambda: jnp.zeros(logits.shape), lambda: jax.random.gumbel(key, logits.shape))
    return jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)


def empty_cache(T, D):
    return [[jnp.zeros((T, D))] * 2 for _ in range(LAYERS)]


def numbers(data, count):
    """Whole numbers, of which the low bytes stand before the high ones."""
    low, high = np.frombuffer(data[: 2 * count], np.uint8).reshape(2, count).astype(np.int32)
    return low + 256 * high, data[2 * count :]


def tables():
    """The most frequent token after each token, int32 (V,)."""
    data = zlib.decompress(base64.b85decode("".join(TABLE.split())))
    used = np.flatnonzero(np.unpackbits(np.frombuffer(data[:256], np.uint8)))
    after, data = numbers(data[256:], len(used))
    follower = np.zeros(2048, np.int32)
    follower[used] = used[after]
    return follower


def guessed(two):
    """The last token and guesses, int32 (GUESSES + 1,)."""
    window, follower = [two[1]], jnp.asarray(tables())
    for _ in range(GUESSES):
        window.append(follower.at[window[-1]].get(mode="promise_in_bounds"))
    return jnp.stack(window)


def decode(weights, prompt, key, greedy):
    """Each run scores the last token and some guesses. A token is drawn after each of them. Those after a wrong guess
    are thrown away, so the others are drawn from the model's distribution."""
    P, most = len(prompt), len(prompt) + WRITTEN
    logits, cache = scores(weights, empty_cache(most + GUESSES, weights["pos_embed"].shape[1]), prompt, 0)
    text = jnp.zeros(most + GUESSES + 1, jnp.int32)
    text = jax.lax.dynamic_update_slice(text, prompt, (0,))
    text = jax.lax.dynamic_update_slice(text, chosen(logits[-1:], jax.random.fold_in(key, 0), greedy), (P,))

    def write(carried):
        text, cache, last = carried
        window = guessed(jax.lax.dynamic_slice(text, (last - 1,), (2,)))
        logits, cache = scores(weights, cache, window, last)
        drawn = chosen(logits, jax.random.fold_in(key, last), greedy)
        right = jnp.argmin(jnp.append(window[1:] == drawn[:-1], False)).astype(jnp.int32)
        return jax.lax.dynamic_update_slice(text, drawn, (last + 1,)), cache, last + 1 + right

    text, _, _ = jax.lax.while_loop(lambda carried: carried[2] < most - 1, write, (text, cache, jnp.int32(P)))
    return text[P:most]
