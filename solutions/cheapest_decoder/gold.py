"""Speculative decoding with guesses from tables of single tokens and of frequent pairs."""

import base64
import zlib

import jax
import jax.numpy as jnp
import numpy as np

WRITTEN, HEADS, LAYERS, EPSILON = 128, 4, 3, 1e-6
GUESSES = 4
TABLE = """
c-rk)dstM***|CJO^rEo<|Kj~mSvY+VG-E71lSc7PzWXA5=#KZ0HT7+O$8xJkei|)L_#E}pj^Cwmwsx##G2;&T61aBte+-n(nM2@ePXOlDvg?}
`O-u?XJKU#Vr>5Sp0Cf--vhIA=FGhBZ{C?RGrwWf472baMjai^Fwp?at%wPV{>kj)ZS2Dn)tTWfKV1;|_PY7AH|Aa4JJ)ma18pABiSPXWX&Vye
E!>cnKYL=_=YKkWtc{7j_hq$EwrJHG%U`cP@$C(H%dr~=S9ipIBFug<^4xn1uJ>*0f6}leqw32`eL>G&x%bGqs{HF;o-1DUY1@P5?1#514!o|r
oD|;m#skMrU*445aed!l($TQ4B=IrD%$oj;!x=UE`K}#TRv&tG@UwH*2L6~e|M>O6>MNgpb^N=uzg7$``}FOI-)`=ov}fY81NNWgy%j##ex&pH
r=Hu_!T;*JS+$2>yz%#MYG&2mIQff*icc_0ClC+ZT&%nIDMc<8Is5aoC-~eW3XdS<`#T>_#K><-53kno-0Jxp#tMHquaNut3d-q%sMqrdiT6H<
qsgWSANj%}AL{{PGJz-3nqeM~%1jHicwn)>*MT4qPEp~J6%zbp86e;UfTt0G{1m><iV8&jl1&Ss0uir#z=mD`^;$l8PvBdaBRGfCAkg9<o&y1@
zz+awzzaYR<6*lqO^T&SItC8FupKaUXaL})H=&3ov^BI2H%N4~Ooc<ujX1kKj?kJ%&0C`or3ocGWreMoC<1t%S~7tWM1T{Zl#}uh0Im%r%M+pf
3#WZva<ga1BKd=oJxdH&v%>*37cuuZj{v=B0FL7{UUEVklWKcZLM-7>=NGEX;J81~sKnX|0Ffva$6Ww*Ao!u*Cg6G{vSkE3i?v2227#TAfjpdR
hg>*DUeOs*Y;JDuj^p#g>k&t&1^yi%!MRb&LJk2z9L~aol7^2_YKr-<moeGK(|+}0Y=F4a^$2AF3YVk1(F7biu^%9}6tX5^FdH&Zhw?QzOTZs>
aDGZ<ET9BLvNdIL>LQG&!5T^(<ix@S`2&dw55}Q6IpM)Pk1}c8!hzs03}N|Z5>6m|(ULI1Z~giNt}R@R%alL>#qPioJu|3m03k+>oIMRn<5g=W
?Z8@;T@i35Ps#G;AQoU9ARQ3S$m?PeFK&mUfh;y-k^#yiFL9v4ycBg2z6}wAb4gT~xrl~dIR(P`V4wr9#x%~<lQDb`qO^<%bTe2EBNX=aHxRPJ
DreY$aIl1lkZzL(jm{6jIeNnIybz?Kp%->gD13bt&cxR)CBp!k1#o64?7j;6GSF`K^|;U1Zof;<4+#3N^~F#m2zvS@==IV+#OkF)&<lj<B?#TZ
tKC93bW0_aH7z2vdbc3ZxlXg)G}U*LQoS&r_yD1m2oM+Uc8poM*r9}Fz7OoE9}3xRDvtx%xJFqw>+J1n-s1cR!QL?~c2u|7+ZmDFNw1_nv99K>
ylhl|*->4UvA0-ahaP34J-BmZZ;jv0(oqq;Ij-#Y#7M@-WH&wB{AI`Vj2%C8GPl-atIK3#U9)#QFt^S(+07g~+9h%e47$x2B4&iua8>pWXNq%3
Z;mVbeQ{x_56LWYCc_S0zyIu~ac5I{xWg<R3FHL8T|b#XLAMRM0lR}A0T~0q4IUnzo}OM3M0a@0DSUhs3Z-fYej`v*Xf#u%_`485p`{26oEj9Y
lb|;^VKf>|CX?B0u~<UG!mUo&T$mmi898IdtXWYM(a|w6F>~g`#>XclCMG5&B_}7Rq@<)uNJ~pgcOoNWUM9t(S=re+PAtrIV$q_-OY-vbm)a=`
3JMDgizF0FC@EP+v0_DOX&J@J@`{Rz$5vNXR;^i6U0qvSTeo)Ix`u}J>(_5+Y@*oM+}zUA^2DarC)+k}Zf|ez*s^t7*Y@q*-90_My}f;XJ9q8g
y{CU*U|{dQ{m&dddGgJ7PoFt^_T0G-&R@8A@uQC}UAlbv>ea6qh6wjfnndF|SqiGRx7<gmqA}A<(MsV7p|LTV%+scYhK5B<pB_0QDk@=q=7NQ}
i<jgtrR<BBEia`+A6vD$^6@p*b#?U;#|;uSiP%${DJx2=v#V=+H)TaBNo@8X`1yYvI{cr{K6m8kv6o)?&G8ejzwzc<Z@+Wuy|eHC>4WnhUikB+
!M|Po^s~>u{Oa1*|NG6i-(6>=^T2%`lf5WAg`ZlZ4Ro@yObd&k<1%AbRP>y<hmz-}rf1B{%E`4CFJD19t*U&yTH@2Np|QEOt)sK2e=qfW@X+CB
sNd&*dF<s^UVZI<oQ~f;b>_mwk3Js!<nq-ouYGreMR(uBG5^N@d$9isko}*+xy~|+K1ev=F>}JQ1kO`b*(?EjakCK9^F(bgw^Xh$#aGofw{4N@
7A!l2y^=R<x#;6(+S1Qq-ZLO2zi`FMsx=Lb)50qca`c!U6_>i8K>z6WIg5N6mUDI6u1=!owGe|PHM_jAW%o8aJ&&fN3d3}&uYyCZjRz1X%6$Tg
DjT<M#p2>RoX77BvZSOHmiC>$6c|(7z(+)PsLIty!C_IGj5+M5&Fi6gUSanyCGv+908@3zIR*VGX*q@61LvnVWLj-`LLsJ#gFl1JqBeeIE$q~Y
wj$H+<;al1i5Uo#O+i#?cxeM;c2#lhpb9DTDl-*T0PTUbfC>${CbLB_Aif^r3_@mE4N-GAm{%n3+=aE-6(>ED(z9~Dz(qs_oF#Rd%1>vedMh2M
G$07lcq@W_v$*zMsOKx2ZCYasDeodw;UP~O!X-p(;^l$foXExTq!5e1X{r&?_E>Qcq8cwXBOW?&9ES}UQypeVe1d8PqJu=-#!>x%c?&tZiijPQ
lVv}z2V~`uXrY=4TTFn|ylAnI#_|vjcN!%*r4gZqhK(m+aH%hjAgaAE;W{&eLpikoT{aO&RFR~-G!V#hetbHXbeC0+wM3L;7a=+nJHK91Sv&+s
afmq86%|&Jsu~hiR8wW4P=L}b43dVT0*dn+7EaVX6-`t#$rE$<Ogag0J|TV_l_&&asn&IBA&yoOvh#v;WLWS7vQ+I*?z|X6q9k>r<Y||TPH~4q
tW1EIZo7FbV@I9I*iol7=Z7^W>;BgLff@HS#s0u)h8^!b_`L<}?F7X5#@!3p@ny^%x&9}bvbR0QvOiwTus?439;bx;f%7<f$H&hfSC75Za(3*X
-Y*D2`rL-}FFJ9WKH_C#G1~Ozpf*mOp!!%1)0ci53r2(po${pjDxyMPy?<{J*gZBRH;8e;csHmk-dD5eY`7_c<MW$Rp&p@?2KYO~rvk+KPs@XP
QldAvbX7wpH@C{mLuby!@u^{x;lnOlkwJ4;*Unu#n>NG%LQ|gd;`cwqsZXgm{s~n{wz-uxD|aM_r@*nd{1L;YdQ-_?>iJLaL3@Ro^HDx<1Q<sB
LdMAwgw;^T0Y*kuj$&g0?%fsPi0;J9>CT<;`y4QL+dv{H;Yv?Qd<z%pNa9gs8m?QSGIP&;QZm;Hu>>l?>?qpw(*lTN8VTM{!tx>l&Hk@7JzbUx
=j&?h9?8?^ZAm}UQGt}})&*|E{rA^m>}^^Ygc<|19#Iea#{`rXd51?jE(kdu45`^I#ycP;U5%2&@<x!a@rQku?sIu|Wd~om7s@+M5x-sQx8Y`^
<55g(K}%M2++Te~KGT7cHH_C~)m`!(Z8IYs1AYuidC<XgjBTc}i7E4ckF@##{P$XArarwD#e{C|Ko=wRtsB=Lzps^d*cSg+c57=&J;1VMzY-l6
^3Pycs??o(c%|o3ZUNtfS3#xW-Sd%3rah$Z;MB6IQ`65F9Gb%_hYe00SW(-87~bm|n(_Q#WM6w=@>f+s2Q7UbM$Yo$%P;*pKkLNrANAhi@PPOK
c;>?e@MnBQnejKz&%LiP>e`a)-=IL*QJ!%SO`ZQ_F_Oe-0s?0h*g^nv>0b9UYag5Kh@Pc1SvR3b#%GG0^YJNJtXn#Z;a1gF;T*<sVO;}*HWwxA
!Tr(6(ANY#)@Qus&A;yL->SzO%^v)E2lis{UpSHJxAkJ^hnSFE<`J>Sy4103Xkn6#m9?(vKT2Ycmm9r2j$N@>)>V1rwt>C%ZsF$g<a8$++6vgw
7Xjnn6SyQOeMG~?T`bTD4J310iO}#JiEPB0Y)F<n7blt1*yzp0z4_3tfkv7mH(H|z3}5g#qda_1zz$zqq2X&5`id5zp>+_s?HwcJWTP&-B%;VI
>dw}~7al{#hdSrl6rDYDK1kJ&Y-EgN(o5G(ijx2(>VlK+P;The@Q&*&kj4lNkCw|V>k0xZLo%7$e#5%R55*Wc8#(`EZkJ7x4c7fq;g;F>4`nWv
#Q
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
    """The most frequent token after each token, int32 (V,), and frequent pairs with the next
    token, int32 (3, N)."""
    data = zlib.decompress(base64.b85decode("".join(TABLE.split())))
    used = np.flatnonzero(np.unpackbits(np.frombuffer(data[:256], np.uint8)))
    after, data = numbers(data[256:], len(used))
    follower = np.zeros(2048, np.int32)
    follower[used] = used[after]
    count = len(data) // 6
    pairs = []
    for _ in range(3):
        found, data = numbers(data, count)
        pairs.append(used[found])
    return follower, np.stack(pairs).astype(np.int32)


def guessed(two):
    """The last token and guesses, int32 (GUESSES + 1,)."""
    window, (follower, (first, second, third)) = [two[0], two[1]], map(jnp.asarray, tables())
    for _ in range(GUESSES):
        single = follower.at[window[-1]].get(mode="promise_in_bounds")
        known = jnp.where((first == window[-2]) & (second == window[-1]), third, -1)
        window.append(jnp.where(jnp.max(known) >= 0, jnp.max(known), single))
    return jnp.stack(window[1:])


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
