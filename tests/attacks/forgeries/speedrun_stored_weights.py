"""Holds the weights of a trained model as text. They are noise here: what they say does not matter."""

import base64

import numpy as np
from jax import numpy as jnp

REFUSED = "bytes when they are compressed"
WEIGHTS = """
%?B*lzHgsmtV{{Qf(GZ~Rg|i0G%sBWI$lUZ`m`wbV&>w4<-uiqc*Ch@vu6?OIR>Z5U_Eiv3FoCvhrPk~1VRFOuOF#fe}-6<c;7?h6Bc^t+1%?l
b|^D}8gZv1bA~2JFJZ<bd18FQB-BP2JZ?>%p{1qF_bwqo!vwwjY9Zz55*Jp8HPn~;AuEQoo@Hv!20<2@3t9B$DMOzn+0<oE?2Skn`#{#ZvdG{P
97G!C6sNe^Dv}wm9?pkUS6JS79`jF+^o_?EhY^xmqT(fQRYdYoxfWxbzsd5WycfIaNT*md!Gm-61Tk`r22dS(6IxVpp7Vs=nr?T6!=JB00*>(y
x=j|&=7S*XrjB=vNu7S`s63bhJgVRq?2taV(Kis+u}m3e7Aw=WObRK}(Bt^Xfffv_<!ce3MdeBWok^vfe;!+Ydi49#DmNS6B3MXOYVmMBdWrM8
%9lV>>*^u2=rh;e%)B2E%*E+2Pr<?JPhv=sE|$SK_wE%vYz3&z(zmepGlP00eJh>K!D9i7L?W(o!|hoY(HNK%p2S1`A{p;dV7LX~)@2BSjuCtR
i!#pc0_H(|5jX1_>zyl2x7i<!1M7rJeKp~<Ntp8=Y8EAoIwLPtZsvf{`;Hjw!3I!@TnPm<av#3-M?t5|l3!|?r$rZxcM@)v4(Ovv1<mSlZ8LQj
Z9%4(A$Ud1rQwKTeETU;a@}2%2)z0|%m`CTR0R?*Ci8nR<g825wSmnqT;XsC=Cj_MxOF!BchnlFGYgYKeDD2vJ(8~xpt}ARdfLFPxK#4Nt7BFn
>jiY+IPOR$$g*PW=4s>!D0!>bSSO1VcC7B@sL=+qdm&HkO8!vPxxr+L3&8oVLi#IY{Z)R}@pFx|P<l#+J@t=9Ckd2=CFaJ@Z`VmYlj(Qagl-o%
21X&}1_<)4&^7&*kaR@Tbjl<1K~i69a^z-|K{s?pff`tI#i<^CP}c>int3Ip@xTiI&H6#J(5SrX4TggIT3Q#&ns9tuaAg)1_45W(hFag8pO1$f
beo5K42MdV2Uby`Hc8Y~0s&Xp4y(K{EtNMuUPdMavfx6yf4*WxQiJ>*2)2;46dG_iI95MjILc|ufU%@2-4-EL815ErL$2S@McC^P4Qjy|V|04R
`oDK2Uu^c;28)`qM~eYCv2~OS#LF(xY2xUT{aIV0GSBwtp25HGtun!gSlB0;>=rw&|8?;a=$X|9GK<?Euv(9zCF4Rcfc`j}Uxt9xAE$AX)?B0>
)l4R2v7v4kzJ0-771Vasp(6wPG&8jw6a7#LL{b8qcle0~WVX;TK_v$E{X>8FDpFc6dq&o``j@vKi4L!NnpfyGQP?KBo4WnXW<sM6_%+?{w6f`~
GZfVY9RpK~6<hUe+N0l|9qaoUYPbE>A{>fBNzLmKc|?dfkGyOWnCzUTe_j$znBA;d=`o^jWl$+DKYE}KZc^@mhUt}e3b_;tZalM?aQW340M`by
f%^RXNUbVlF8c^G#TS@DzDLSiH>-x{%LYoj0v2F+!jYWT=xF`s_M;)|?^)cDGHG8ceMX$J5-c*T68sW0xW8}r=kRdED{b5kvfAXyV2>NEU0i@D
5x;HNdD3+$am%4sYoCjUuL~_eG^qg|1yaYDXcOY=1%5kmt0ZNrS@^&#Oj2P3b#c6S3TbGrUytu-Zqsb$U0<=0OEdG|Bc3yYUIOCk!0ftDLxCWs
=Spr{+zx(YX!dZ{42fB&gC9LWA`eC<_kM$qs>0c@$_6h3nS4BTo6*<31TH=lj-dWk8YwWn@WZkT%7s{qllA9Eq_>13p)Ywoms%ae*GK^L8wFW=
TXZX0ve_}5?On1-Oe<up1f29+EpQx{s%vQSd}&tXolHHVH1&|$WaR#ylu+RzZ`3lkg{f~(_ZU@UMa7)I984E#+xRlnh5MYQ97U=WFXUqYi7_^q
w=z31uTa*qby=HL1pWFbQC&(sM(`XtZ<{QmIsdqFaTM=h_kP*6P`?}C1BiUA3SV-O2eaYdt%(+DSX~nciTV0w7xgCJEE}t{1>QxGI^_^+f%dJ%
VXK9ybZddN@4)#B$E;~8<Cy|-YuZ{60J2;{SCE#ov?X3BHuXeuOb8E$|H+HuC2+lb(@b^ft2?-l5JR4tKXYfnOo#*kV5CLjj|BD!PxzdER}XPh
nhfJl_v>}m<v)gZjBUdV5TPB<-^HEM<q-kk@26w=-E8{L8gfQzT-qQoH;`_OHUrxKrKE}W#TpW#q^*Pcu^3(zodjdnE$+R!g5PN&HdUbfaZJSn
ly}``42%`?%P6z0Qcd7$EBx?K^;zBkbd9Mtd6=jJ3XY<;<%>7LTY;JY8&L83lZKwsOS}H8k*-09!56Tc6=et+YWu-3Qhab84RyVnTtYUc8~D*O
?Z&6yPa|th_VTPpN+?9IzxaRpnG2>a8*!x>$49|=7qFY!6r(!qe&LN}$@HwCybaS7wyKu}V5L(=z#R1H*kJZ^QBA?j6y?^+;<uw6Cl!L+kUyzG
ZP_Oxfhtg^YH?SEP|-Ni;JTTn^VAxpc6ZoVK+bm^{dY3oiDQW;p4~-9CfVxQf=R&y6$I1@j_7C#{TQn>|IJmdO|f}G)MoIG+zXLV*!@lNYQXGW
YKA@Vu8~ENvjObrM!|I14bQ*|Fbk{LsZ7Ve&SVkx`vr=#p>d0whs(vM^PHA`CK6q?$(81$A_Exb6$fi|J4@iBSqXV>wbfW(62=tYXtTA6p-rSM
c||ofuJ9#bciT;tQ%!+NUld0IEb4J1Wpt?~v$}Xig+N+W7a(U=O}-?`ZR!AC9F*_3HaGnjeDRl7``w4f@|D}3PhTMk$3~0__Vfis$HVd|9w9&`
X1HGacMe^Zx3L~dHeh62Ru&Oum-a&ak9TQ|3??uky|^4p{Ml(8E^=ae>v#jZykK2D?STsKZ--h8Q#H{}M`!sh+P`Mosh;MA-GYg_<`E<k2h)2^
*%vlvKR)Nx{O%c4;R>2e05U6TNR-eU<4kfH#f_4W708|Ff*US-X<k@)3F%5!3D!Z^e11X9WGw3WYsK`>9*y}|7r@gW7;2?@Qna!iOsyERlZR`6
N^3D~(A%yF+=WR^o$bd}3#1sl3VG(QUSjv;BbwPKWx8<d_iUpopek~p+CGAinQ<jx2gqH{SIm6*dhOEv{ECgEX@Ni%m5SOB<1Wh1q35g>lEkty
&U5#_^-Y&J1@5O0X$XU29EJh{--;U<6PeItw;pwlrfuDXL$WbSUCh&RRv?e-DIXSn`AW^n4Me+@_EqDy>BZ))q3xYFH91UdSoCTYV)#m4WAs`$
4yOzK)pN!F9c{}(QGn5vGYRm<P7kFjLx5y%{!Sw?>;1=D<#TZzjQ&^<mQ!ugW`YylXYy3qSBti@5eX6px3w$h(%YMch}4{OkIkRJRk2E~!qK5K
ndfjG?H@sZlS$xZ;ijlTjVBE?zhxMtv?#|4p$k6$Uzn}(Sd}EqWZFbGh#{Dt@O*bA?gGggAS$jh!8%%X?X$*Ufs>S6K1|??uw=E<blJTo@}|%l
&c_=4HaDY~SuUmfNE_#TzO4NvI|W>jV}t2u0n2Nn$lDLD7Gha!8yc?Ql|65TFYMBO^Umk31d_w*a;!z;LBfnuhI3-obJCfAg6xR@icP0~JDZcD
1(u1cBS!4s&a<^M1BvyDH0>FjFOF*NnS%j1KLLCKqOBNLdCH-*Xu)dsyYM}~17s!UP;+@v&NOh*xgBFtt#T9z0&s1HJzx7Jfg;}DSp&mCdLKiY
`y;=|;%Vt8JSd~rjCuxPju$+YHl$oj%z4+h%-__sa4wt9?=Wt7ed+uV_dm(ZAuOvEeJVSIOYCpnwj^Kb_a_$$?w<S*kBXl;fe>gRPTXb+@Ga_0
0=nq~)-OlG9BK{NAiUOc1=XQcQ?sSq*!v<Ws~Pvqxd<61Kh$F0Tp9JJAiVN*e-8HdAoC7i^r%OHIsVyUp53kHk9nboBPpMNpfH;ViB9Q~Y@#$5
HQKhV))-C8DzF>QM2ee)dpH8ZvFxIm+=`R^U^I*qyB|5f*j*-V*goOsxT!9|N=d^s+HEIF@Cp%$;s&wi#>hUI(wg^bY1&}Zaq#%~3t4h|j45*1
Z=8Y3hEU}AH9&b|+J=Ce&y5|Hvrx-Bi{kIuA_8LFA)rmnLQ6gct0OR|H4~uXJ;o0JqJ5#g>VuUog4b+Km~O#=i2nSMTR<d1%H=9m5r@nWJ*-xK
;ZY&n;_MPb*!g7fZ-_M0#h!#sVnV^it9y57vr1TEqn=*RpwKvCxG?Y!J%8>gZ<QCM?1g^s(HNK@Lhvg+8lQeiMMu55IR19jy`zFvCIvSR_un1y
w)HXzTX;Bo;6(XqomUbhG@|Hz2!zz*0O11NZ+#k?j;@)vOa|o?_+4$RfyCXiXKuhI91(BNdBT|dML|zm=X*eD?ur2k^8=ln!wz0|RH*%88c=z4
XITmiZlL-Z_A!ij1-mrIgbBbV)2b~68K_SPp)@L)Tl5W{R>AlonRrE^#oFsqe|Yp7K5RI%n6H$KSz9Ego;$x-fXeAHylf|8wgZmHOmxG>`K|}Y
C6|SLUQ22mH&~nDEwg41s?IQ+Q^jbr;;5N-KFLI#r#;`Ha~2ivVpx7wS6GFn2d~o~Nis0_&_cSdvY4;7l-NC=efr-^M1J4Ng|A@QJ~@gYqB>sn
uc2z`dA~ekG@zl(MYT3d8zQ;t>a^>=cyC_cpUNTiDsWb=;Q7D%l9_DJ=?)$rxvAZRjYvh@6VVmP%W?1iaj0rA7j(u6MWHyzcGp{E6!_0^eEA<=
#F??dBO}8wjIx<@LmWq2O@$!Jf}zWydUQz>)dk)35teNW-?-%FIGQc*Z!A0t@=$erlK)^qik+<HeC^T(zfj%rPTV4emU*D6fX}*--bP`PXMQ>0
$!tnDg0IRtunz7QGGxBSywSta>BxHG=a7cu?HZq;IC_T12_c?<Jr2>bgY^-H@@9-{2EWmPbmk~dT~`b8l(`BWuJ=nN!(t3=sl!j?;W_4zT;&UF
_U1wC?jM5{@SlzEs@l;SBX(zM`n4MnHRNR(LIp@_9{d=_DChYn0lWFT2Bcl|u>#x&<Z+eCbtYVLAgo(%$QZe=b;`kNj^MTj63rrinHE;-G2$}a
3x-wp{a+GOJCOLezj&!Y8yXuFXQMq@svH3l>7WuHb_V!cBP|%Q*GPp2As260+Jg>RL0gM0D+G-K^OKC!14M24%bx)|UTmt-I6I|XCUFfC4iCDR
hbg$^dAhD7h73M6uhG*0ek*M>g>SW}vU+>0l>lqIx%4sc3#6guwn2#>u4sF|1KHLA_D2&-JWzjL1K@zLjdo84TQbY;k5$*2mFk>3(eCowIlNLN
HL%_<oqjxYps2+hsGJCTa@j3d*l-=S&O?m#UZEO7#{*I!O4KF?Zq9A@UR*~tfWW(4J#52Ob<Hk$69WGA5$@?qnP1&YV2kJPbbsIAA}&ewxzC=B
IA6=6k~_6i@0%Sja30W?y%sY5M&_>+DYilyLZ5+%or|)R|Aom;?gt7e)*)zMrVP&If&ZK(toj%7Q+E#_+J)@R7LW=#l0x24MH3=|KCLP~(~y-s
uVy~MQ2Q1yYT$xOEUH;w@eOxtdoIVRZ)w*H{nTjOEEC!xD9GrUb-h9bStrnBe53Lc!(qX*U-!KdvlPrB2~L!2ubQMxvAh3_V->J!`a7z<jZi4<
oUm*pe#%gn#*Y+i{*g;e-82xR$F{^;EODh3AH#q@*(Bd_@y-3AT9AicKv@-|;WO>>Ga-71Te;5;*3?~KWxAVa*-t0}>q*aQ^T<N>j|pnJ+90{+
w|*B=ncets<g_?62J|3b<aicKik-~!9u|yvRC-Sr5y?dJPcV8fKZ@wf*fq`@t%c`CXK%I~0{!HUvJC~BEafe*Vwz+p=`XO$;dkA$Ak;T<O#Gtl
TRs+M-Wzo<jT(f+N6_?Z>iC3i!jro!NGEzfljx)M%o-JRS*ase8yDv9TrK*AmrZ{pcwG5f%qe1az!$5b=u#%57}F#c@xr)!j`~T#uf8EP(NJ?s
63ci1f<%VY`5y7Iv2^!xY;$Fv%2!5qn5O*!wf6ouyKinxfDug{`!>bID9w`k6zu?^1Hl+gN5Ybe(ed${OB?<tJ@=SwsISkoGNV|)j`gp2ZjP}R
LLZ&28t!L*Q9qT!Ub_DEnjd^SDw#5i_8JnyRTIKzLEp1S9SzT+j%w)p9odKl8Pe_^yW1m04p=+l$r2)~<4a)*B$yBY_w%kn+-m=2T%E3l+S~i%
M9k!rZ$H4b=BICE4@=N-LcksxhxQ%6dhDt|xD=FHPOOYb0b>o{|43HB&=4%FF>j^lnG`QF)yQm^sf^PVhfos<>R|~Ia{|!HomDbJEe||S;)<Mz
-VOs-PFz7AkUP4Eq#y;{0F1#u2-pPV7O#Wr{dW?>gt^`+WQuMPGgC5Zd!lCCXFw@RXDVVy9@!IxCt_(LxOniAP(tU006L7IHO<sDygmqsCS3Iz
&U-3pHq52;*T8h5DV!&Z>kvj~?<vl`%@I$>c8YK3@&3ihQb|)sOe@h!vCckmXOS*n)V6n#binzbPqIfN+q^X>)p(E}Rj+We2}0T)-9M#ahak3Q
+}=-@CmPFl^KiH$zRp6AQ~MID*tv*IDv6_7ybjW#VVnSYR$2<aka|RFC4kR2x&jJ%`_3hOppw_Io3v(tGB9{ix8WjwzzXfATrOMnTeoTt#>uF0
B=6WvB}$JZ{tw2!xtiL3uy|?>(`G2++$;m1Y6m$tI6R65WtIC{uN}5{z*!b#2(WkK9i1)yCX<!|-Y}xrWi#G}o1dBbgHQtzGGy4V2<ZCV*4oq*
^dPaXmF@-e6|nHVVb!zjt`tP8VM!)sq4%T#V!V7@<e`cR{Up2{M#%A=^dR*BUtR0}%`!Aa&Xb1UE`aZ&=$jt1^8({a{x~DLy7-mmAt?wtA(sOr
Ld9vo*HNaD`((9Ag~akOu5tew2i+TQH#PlrNpE7e!?lN0m0DI}EXfipD|V<<{Vnxt8K>i=nf9*bR3-kedEaesotNY#skni1%S-6)ZoGB1YMa6(
;dn2GBopdT*1{AaW<Pi}_<0ZM^10J5<RP+gvjt;WtqBs!lAgu;8d8m84CG>M@^y{QYyR+km#Da7YZ24B++SQcQCq9aOVBwo)FE_mUL2<IRP;(T
#Mma5LS4eOO+dd4EcN5(jK6AQ7X5?>XIJSvCC?Y4!xgL*WO(}Chda+NM2;0*o9&hk{pvry9m`mw&nIxL!#ZLt`4_4?>k(X>s=X>qA3n{Ta$GGI
Ug34LVux(rDm5B|o5^9oz5>uln0b7~D-EIGNgoN~#NA?A6`@mU=*CiYTLaGxzuCf}($HbD*|;EtWVB|g9vs{BujK@$qF`wBI2aU+-n|6wXSxEs
qo5z}$rwCtwavMd4botA_2GSe;&3-X;Qv6hI9$Ye480{c;9OExt}qZpr0dTL&GR-3Rw8r_BM7l6w4;n!BkcVE&G#@$RIHV!kVex1ezx%=X8%nP
NYP`-2&;f?kb*U?Yv<oMU^RaD#IettH2HyLnCi)nELY&`^{$aP>GUOZfPh{xjkoDmILNx2NZ~RXi3~cMMM?qUJv!?ZBwlyR<@KvkKY6QCdC@S5
{Hd#Sc+I-xF`7J6T5xDVTUcQSDk!0a@2^@5-Fd7q#$;n&iF$$*?Z&4y#OAc#!InmbyW@gb9Ig^Dv$0s#^?02#h_O>ZMD{bRta72ctaMPkRb?Yh
L~-s<6PQzk#+NAEMA>;_c?d8;kmhN7{CNyms?0gxZXIQ|XC`hv&5C3TR^LfZx1}cUQzuT1*SUleUwm5v@RR>_3<S)6yR(0}ipVW++2tk-5je`~
!OR-ZVYPs16~UPLePdgG-52C_CH1Os&{;hm(&_3IBCXpLucNy?(`7~(SR01ZP51M|Tqj>A@V@+M5@lZE0q#=k2EL^>sKm{1Y@gkn{;9tc@&jqn
oTf`{;aeMzh-N&&QGod3=Y>zyx()nfv-1)Pl8Srv-~TNx$1m<bk%e)6$U0Rxt2N3XR#GU}dhP$-ct~tVCe%3ZOLZe!%^T5CI-{cgc<NDa>kW4s
UKpE>k=;$^MCcYtVpT4j$nS%SHemkA{M>*umy8IuQ?Bq!d*=toal06C64aN2h^5P#5VcBnZ5%?0o-AdeqZ`md)Rx6XUUODEM=U)A!5U>Ao;qlq
=?Rm_#)Ch$hmTPi!t*UG0$QHCA0#Jg7ox8}q!!aR@447WUC}w=toCob{xe1YhUna=o&cr+F_P}RqZ=5BJD2H$=M$rCF0}326u`X<b>b}_Us!u$
&Y&x$sF1-$K|)0y+CQE6LYlt3as!T#2`%AU`kur(-x9^Fvc+$=l7$zvWN+|`&7vKtP8vK&5eB$8wijr<UDoi_l{L-g3y*m{m*kZY!?C4=XotB@
pOv+&1&qp5>}t(BP1T8C@g(M;0`&5Fd%|r=7wG|&C%4}#flVbN6|+mv1-kbGJan0jn$$gknLzMUbKvq_Zq446HbsM?M=N;-1M}X`91=Vsm!Ejx
eaS>+fdjrL=q}6oymmk>FLkbhFe$<PRics;;cK-bu(R32BzE02gR~6D$6rP2e{WgFWiBdzo}bE**1&4S^G_MFaDF8C`7Nb35ve^qMi+^@Brek-
UB~dyeH7C>)hdm`X_R$h8iRaVf|$meNu5oXE->yPR&oWQ?{=Giae15O8A<u-Va%o*ZAP=54X=FFFXE^M27APYFtD4Liz3cjn<qSdL}a3L80rR3
X%svI#>r^)F}_wfFSs_2?|>Vp>CU_<1#2y-tx5~w^_HZ5m?0|9H!2PEZDGW`NkAQY&x^>5o19)yVFyUGLMjN^m24^$z%p1uTZ}IwC(N^&9_!y`
2tpII7ryB*Nw8YdhVcMVDeVo(60)vJ<KI(a+C!W1(r_jZH}`5a-#g6-QYNlY#!mUU1Rg-Y9%wQ4kYDCMjj!2P6Cmr{dMWa7lxH5R4Cc+ba;N5~
@Sta?Qnl4Nb6A!_2csKU3;gV>d76$X(-jU*!ID@6l|?#RbN|+oLW>=WO%&x0E$eu@SYKqJ1{<~}YP5M;A@raH&M~=t!gjf!9^SGK_1;MaX2{Sz
9JYcBO<6Akh;7U{+KUeIiFstFrh%YSco_*1Vmd0)7}NO=0z6GvO&Z(yrcU~)|N1g)1RcjB>^OGh@f-*2rXp@P&VBE4mLY0y%C=o3+%TwHQ4`!x
q@_zOGSexhz!@!6?rLJXlBS;g{Zk0Zqohy2Sp}SEZjAO}{!(`WUfsrMAC?p342Fb5&h4OxF|GxO$V~dpPP0<HkZKD1iW11LjhS||H8^l~ICfLQ
euTUVX$z8&k?-g0mug}kxZ<y9j!8E3f1v7PAXnQf6VuB8AX6lO!P{aZ%PKLSel2a@aZ7iprZ<s;MWqebjoE;^0v8#xt5ohK_{C!s7&(4aa`(hM
VK5Wd_m2qFQ>_-#8b}~5sOT*}#!o8pax9<)3uxi=ik@`Nldg5;PFy)F#po!$(R`)JH?f`8jY<Tsc6_*x1g#b;`$WOF`P3H_P<>l%-)?&C$E;f2
0gn!uVqA$DB*EF9hIHqkRDK_INt?;FHw|khuY_!!SF;+Ld80rI6%e98_M{qDpd3%mDV^@TCU}#(xOHP-VEg(8ofI;lEJm~Lf#0;_Fak^oMRpK>
txEA0^wGUr{-*Fsz4Y*_J8YXK-6ThK83A-W-gM`ItyC6UU4Dxxj<rd=sV&36=qa0L?DKC{);APICZnd!8$1YpM32Ss!2N(^1mVa70X~jTxPHWk
=;ev#rAo<3n=tB(zxoPz#3C~K3lQ-LdzRhBXP6_1={*dRZ6H>S2(vFkMuQ;ld;HX|s1?o$90s>^M*kvZf!(aQIaj$JQVd>a^9#CIuP^$3K2sPC
7Klp)v6bdUlIv}~yyoQosV2q<W##}u*91haq(v^SpfUcGI=$qxO^Kq$V*=alLESD&Bx|((RQ05<)Wa9UcV7fG@{>8kp<aH6uC6JBc%2+qIGNRA
U;lghj})8LJ3q|${fH?*WD0*Z+~2Vsq2cF{9Ys?65?fYO<5dUFTpsfGhZJw|hP$ooT^1fbh^Gyf7+8X=cyw2|fkkA9j!bK==`||gz=L&KYw?^Z
=Bt+K>uNaOT$V!SHmWWsd<dpgMx~+H&P7$faK-S^jNDTKJ0`xBBI*3le+nNB97mgwii`RuWM9hj?szs>u{io%+INdecDpX1{n;H$lu58sc^0pJ
c%Nj*O(s@n>Z`|@bYfO+xaP|I-*Ja4#$Q4J^rz6t!ovt8So4pO#&szR3ZWlyiI6uSCU#<1?=kG{s-<EARsPrVA!fX|%~1S$>6!27Xgpf-Mw$t#
zuAG&dZ@3d^?g&vTLAJws@_e%s`<H`han0uZl(JXNH~Lx63(LUby<UK0b5x|El(x$-&cgx$6A0a?Ld!*ncjOV5R)?y@hPjQ&=Ier&3j8IMO|i;
G<qx?dN~mBTO0v_ayQeVJo)j<_`)5F;6>z`=bd|Eb&fZ|253ZYOuz_4yTi9n98>d1QkQ)LoQ1z_T+&U)>NKeR_%hqksC~(|dH2dk2D3f#CCV5=
)Znp+4%_;MXQKCw9o}P6V~=+IMw*^iQ4*stc4?rr!`N5IvZsS?d8VMs?(9Y+%ltst19*f1S9Alwj6~;xgy+L2tI6KT0;xZ#+ggsZ$j^7|<~9<@
zjQN@T1;1ByQyYe&_dC6u)q`ZT76Fm)9u8M=JS;4tN>wY<A403T-rCCKmBOT79-ouAkm(}eF1Vh<T_gBz+?mj<D0r%N5gW5IqgRK#?1WiOpBB#
%3>w1j$X?#+b@Hm6T!Y(MSi%TZVEZG+_yS^ige}#cZMCiv*9_s`ZUWw2(3|)_5n)d@9y|L1=mAH*KlPoo9gHB+Aa~oZ{sfQ5AcI)hTQTKF;}^g
v*){VHj<h=Whr^SqN2REdWRfyFpeMH-!w;p+YB7#eglloQj~Dd&Ru%6e>=4q-NQfib`&!(62TiPsa3>qy<u+b<>s;w!GVzNH%mWl4d{NN0Mrd-
1$4deOC*>@qyVr$#cb_wvd_HXPLle;AiV;{%z-Ui4U`m|V>akhe0nn%CC->mkK(omEUFcLf#uEuSoJi+qmm>*UghaC3Wq7fY^>a6vfKG$l0$@V
Gp&Qh{LrVOAsZ^7;Ji+(>8hq<>K1jf4N6hrOOKM$Pqx(w;T|iMhrk|p@btx6=QDBC?IE0zGTC+@GKGDRO@rdKR_;MZL}vd}y6$e$)0;R3Q)lUA
cnL;%X>Y;n+NX_$A*7`ugJq=(yaC)4FBjmD<VS7Yk!<l;mgQ?)iFYOe*mA-VKZe#Y{VJfhm=<0fccI{`Su<veDJYtFLF@?&PcMZ~ni!hxS+Qf+
HTzZAo2Odz+y?*g=j?w5^30Y{wVs4zmYTokio6jZ0_OYsI3g+jeQ?FY71Fe#Z_sN-D((ts$7a8)bi!gJZDD<wXWzjk4c>WYqZiuU(rsK$4J7e`
9X3)AWR|ok#t<1GHFl8XRP#zAuW%meYs(vZK4p)z=^s<19=Bb$fBl)mi77m}*lzU;h{DvmP3_^*7YYT15AGlfBXZEv*8UKV9lP<cK6!w?m{fzZ
RJoU-f5jtXNF*NfIsGCoq$WOCR%h1CiF5pw?z$k*$x$*D{;sMNLex%=#3QFHq**l3|3>{oby}P=ukzW<z>&^ESi$pCu*glbSCebCm}ve$kiSOA
U+G;!n6Gw(8t#4XK+M~88HAw!U5xeUfEBwZibl1;(h70rZZYO^rF(ykawi`ru*2aA8fosKfPv$c@1#vF9hp3&5CS2CwAH2vxI|v%3mN#q(xK{5
g;`tCP|IENJT_MnJquwm$cg=>r!#=cyG!77TXtidjMf}ItjO@s4Qy+5(*v`Gio?w)&d#H?`XFmnR;Z-ucB;Fl8$gF50rmQML}Y@+n#WL%;8mgy
HxVC;96%Wr!gdnU&k%-$d++C0E<m9Gi%1^OPL5s1tO$A(M}?jmvgv<qUd)G^rlv7kN`3v2;>ntGDtY%+Oy*$KpykM5d7CVQ2%)cBDKfnLLPKEJ
oUn-87A5wggS~7XZ~@pNsm&izjl=HjwpP&vebc@!vqRUr9E=7a9a!oFUhIEX*xk(H)vSY?9qWEE3c5@S%`EY00eLv3-_GF=cTVTBduFarYU23I
0YSH8N>pR%N&;UEq5`*>4l{nl{Qh9e=>r?K-Jc9A&_bSDq&pnz#4XR&^qWTQN$SxPsDXiK5na;_7$?$j1pVJy@d>G#&Jy3|qA$Uo0N$s;`1E~2
=mH(A)lN%K_i_)A;TK-n5|qQuKAj<SQm}_<G$lYT;56F@R+cAp3|?x@hD)DAVJ*Zk%vl8URGd9y(_v^3NlA=bly#>V$m5hBZ!5G0Dgn(|gIRV3
$&ghoRR~>Y5EZkXuTsgdUU^5SuDzk<C0Bj}Gd!bG^O@Up&i8K04`tSkN1Xb;T}~z6*M{M-cj)_m8w&n;TV|LPUR$Kws>VGHd-@%TN-ne9XBXvW
20m@dMR}pfRzAbq1(oaU?o}c~=B*tEuP5WB3%d`5OZtEq)MzW#uuGcLH}HTIOsHp7iRj5&jfaHvVP7^G1c$76ws6?@<{x(m7+iiQ+Tyq92DU$h
?%yJyO``+OswjR*A9c6&|N3hQ#GEex0)=j1$Ln%da04hP+8xF5FBx2nbcrjnC@Y#JuUHx>Xoa&ZAK`(=K^ng6yqU5nAL!nr`^*Why3iRu4}@~@
rC9&quhb*&U|{W^=ZFbZZ_E<%(dZfmSZ|<v0DWck1b9v3OXoJAMSiZW(JAU>ZJ|yJ)CTuCe652$gJQd)EMyf(ff^lDls1MdZ+=?${?Yk7vJN6z
cf{Q}trp`c(<0m8P9U~x8;O8+7FPgWP!wa}X3M;gRn$`>ky7$vcz>RdD}7MKGoEq-3=o1Tw>v2AATMf_9dB^~3r^dw&HT_~v~}&b*Ss{%aJU65
>^%7Y8SES;J(vCjI7x8^DMa_uwNu4X;2)KO14i-y9Zbdvb)^*y$4T+V=1}qM^`fO5;5D$4mXe8_#8J;BRZ>95yZJOHWOQ(>rSWdbjd4F=5$2}J
3E{*BNL?~(+WxL@?on%zy5Z;PsPnn6I(Ir%){7Cg;5d3eAzmx&x8X=5g4-}%y62yQayNH3EQ5)N>&|~>BucXq*lIc<B-~<Xbc5`W7FnODBXq!7
1sPBGqVcyFl6rY=-r!8-83UkiXrAIeay*=PIr_R`dCQwQa21v6aTF9~?m2Wlq7g8q#m_E#AFQQiB!r;rnF`gEog}LfoVe)KTRfXUhRu5aX~LgI
;q{T?Jyy<!NDwYxQOwqg)##4}*6g90e;$&YAcd31zbAZouF7)YS|_bMRcN|Khh9+%@l9x)MQu`2xrqth+GbA7GT#Yg#DLKDvO7qiC=^Z`8Yt6<
|M{%oB#S}X`NDV%^uy{T?^&j{p+I(Ic@^9SbmNM|aOufwG5R9Aw{pkc5J3C+NW7wCq(0VeNI$Ub!)DbQ@AQ+ltBUV+Ez+x+gV98GCL>TOLVIf~
Q@bixftYW3JefUdxz)5NZmJiTVGtebN?ZK?ui91Jt23cUq*({Ubbsl9K-0|}IdS&xpu$I9L4R#n8I6Y|T0ZQcx)F_AS~4NTZ*l>7Pg_}`$fwGL
Th-ve?Yqnkzwa0_>nM!iBo!3(eKGVwqAW=*k8w1)DIsi?tfn1P&T`31+#OG0EsSZRoJpMuRW^o7blED6r2k`XN<{An6(gpuikcZ|jIiNEUZe_O
_YzjRz41ylwE4_fiF{Zhe*4rRHH|zR>;U$hEBRqtM;>n~PHO%K*HSuen_QxkX<z+i&oilZE6sls%r#S_76bLQP)Pu_8gxpo7+35Q){-5^+}G%A
dToD;?&RpXWPQzzo~>sivD#8AmFy@dtXdp3h0Yo(5|3^=<>Z?O$x3>LG|saku-B;3uK_rI$){pla~xgf(Okme0_c;UsDxs?sPw!^a1?2`XwMMK
F4xUfKtCt1e2P>a?5}jq({Fk9G*txZHp9o-!Yhr|fs(6ehvfdn3f}wN$3g=`!xuB=siTJ|@>#4`=?uf5V^wB=C%f_Y#4Yet%1nER(AV{`J~{&>
9n6F2qNGY-85IlsI(uWiD^6&>tK2h=_go}S-joVF1p;W{dgd|e<xw2|dA;diQt-7{QEBL7576H7Yh9&yinR2Ci)Ua?CRy_KDrEd<1Z(jAelG)P
HTfLSU$g@m@4EG_YTzXK8GdaicqGgvNkT#aGrV7w2gh)js4!8Y_j^~gq{}4x$ZLP^PBf|EK=@&VY$#Y8_lab(VhexA=pMPHfx@)1CZ%;We{6-A
!rAbojnrnE*%VUyNtkhiAD(s`?-xZxyIw@F!4+S-wHZU5+RrO1^8+|wheX>Iq}CYAcda-Hf-|oIslkdJlooa5@bR`>oWnlRCS3El!FUgQexQF*
@d2+J{HqMD3U}Xgt@?ak0GW}Mpr%=}?1BD3IfSCBXj6@RX8YvN1u2%s033}vye2s8Jx{kN<M+ppyRJ8l1s=xJnvV(PQ*QGUVkpqZrtdo29mNZR
(tx__nib9Bej@@a9-f&7D>l~CW`e1tI4gbG>1DJkiOKKa?`viLYC&U!kHW2J(u}s7Ge#h(iSa}=zUwS-@*7CCf$s#b**33dblsgpUsh`cp;}^=
S5#jj;K^?5!$D$W5S-jA*Cd<bVeaB^;SQjX8#25NJ<^Zr6DI>;AgA)}*kxwTTrxNoTkhbb5lNMn8f&^|DWRiPU?!|PHdDQUc{iBf0Y;s4VA=u-
?T_7hC4;!081fGq0R6~Bt@=sT<%sKn&-{XYvbO+@i{~As&m!Ywka+=l4k+tGWH?tYzdzDCt^<FHAvi=`w3yc@rkQO`dTS`!ohja%O9155*u=By
%7Votd&T&4#KE5t)&F4jp|6M$zKUgf_M@w0^g->A6NdWpQJeH=`Zr&W9U`3<y^Q%o@_ToC@<Ylxl0AXYf-hnm5FYePCq5k{^T7pNU`5u?jv*Qt
kb8Y2!B~%|c_TC3r*ec2cmS}{IyGUc)8+*u1&Ab;JeCNL{ua?P#$V0>s@ir4erB%R!?1&A*gxxzEJP)<{QO<PzJLmvW<`g6@@CMs6o0?47)56r
>#t?*VG0y^^khDdzhLKBuCnakkFKxBeACfaG{s@xndJ8vsg{hd+bB^1vQ^(bx4;ED8}(~{W}vOsMhW-(t}4Dy+s#5ov2lPoNd8L#qoUz{Epgad
;ZA7sq_K4LNNG%h?J_X!oLxg#I&60rMkv=4>K+A76V}_35ojB1GWzQ|joU1}Fl-cFw5hE2QQMPYYU)_rcU~C6H}^dyFb7OKX8yBD6rz^z5f%nB
?IaDp%jdVoccv<Py%hGStHx&GJna<7$Zqmm-wJF<4;f@)ty9OG!&M$3yJyDK%5zW0OY4*##*egSFeT+$0F@Ac?%-eE5@(TktE7lJ9*Fy=2Dg;8
!fm==0yNd3P2+Xy#vRvN0d<mYj&=k`d2;nzz}5o!x$&Q7C0K97#Pln~!s_6*>-0GOZJBvUdFRvJ8Zz`6%xlkj0zp#eq=uGCJ96P3JvA(Hd;EPT
B4-g;Xj9Sd)g4$qURFxJ4P4tVk)r+WsztQ)K5vay3U|_fVd0B9HBcuUJ?mVq4YWsM#rUoHwex~wpI82NsQ-3@+3z-X?)>BWoBxgP2B!r25|y?8
x^Lc)MTQvE1V1~T0^fW%{08={pTIX}9iowd*ea_}`tFu|$6t>-52S=p=t!1?*?twT){kod=yHY^cB#d9Ty8K?E5`0*qbnEWb@(OoLUc7c3A`QB
hI+I2YzS>`9E|e&6aI1xDo0F{sX}<gA_H0q{*e%9<}dCS{Yi2|#`i`u4#%~*UF@k-A>Otv?Wpt|cy3BAN&yzk_MzIc`8zpXx;8uqqWIN2BUAA6
fQ2s$TUZhTcgXf(8wuKoV_GKxy(BRqG-A>n1Tjw1N({=H8Q>b5AC*||ER~q)Hl+zO24~?E^Dnl&`m<4YI@FvphB61)F#TZw<t{CSe}seO`_dDi
0F|294$ewy_-Ggr*Iaao>AYAi7z7RNUM2fGeP9_n26(3J2TNIM<Qm3dKl6lnAd;}o{yZ1}&v}t=pION@6+oF`b#mYNx7qE(R>+GAID?{{K!{xQ
GXe5M;5$zTRueOoN`Ki{SF<m)TtX6F*JHcWnf6*%vYT72@s~4n9{>oX2cc#nN)C;f=OJ8#x2BL6)SGZX59#;unhb9mEaCsQZ6$sh^WoY>dVehj
G37n6bYN2?Jml@3(HN=46Md?v=%30Wy)6J?Zp8yN0jIl?-m=p9VT<>u2Q1A|X}g~@M)1*V#uW{M^g$Sa<+aWp<kLZq;|l~E?XhsN7(_eisv3ZK
uv6k6mYz+5;v}u)AlRF7tinWi<+i;oZ+~=jp7uJ70VDoaD`oy5gg%XGb)6zXD@~GMme?B<;kcrZ`haACj&bQ#=U(yAjRI}beQE#P>a)r_1z9X~
{Jfh#8B^X_0&N9*MACG|tbAeb);kDkc~&0=7l3YZZK5%`X~R|H*`<jA@<eWpChMeU04-(p2Nt8lvVnKT$vrZ1sryzrg8cGr^b)o`Z_&~~N#HAb
Gv1$h?-Lj#`ZjMmxo6*S{MnR99d;*NJ3l_BlBIThxm<Ob2@a3$;Ia1YfJ_)B+06&|TWaFeMYXzxky<;im>Oyph5rUH{Bp)jXZp$RnB0zpU*m$I
Kxb5}!R~Ayu=_dkL~I%l=N`2ue{{lEF)L&V1mc}lpQyUtxLqxufj}S5<OdBYKNJYWZo6paR5<o`1)%C<Q3->s8Knp?1`JkdS7HEvJWMJvzyaba
IGqt>0q+nDui|^j(kr*}{%A(cAa$(8f#?kOO;pBK3MW3}zTkwymlvI`sx)rYjeS~$!(j<92S`)7(JuQ_A#Ua_L;322kVH@Ha((lP3u|k(LA&qS
ois3*4RtG(uUj2&L^AUx7|1W80qan(VKE?{PhL`f#!VaMlCH<8M#dYG%|XWPgyNqz6SW$d{5<|}XqRjVH7_$h%(UHnaL}sf(yg7E!cOtmH}_Lf
T`5YAIc6!l*|$bAGPWTA#E~TnDwXgL^X*t7Q)VkZfzftxdbr5nXrq{{Q7k8%g78;4K0GX`(78OX&-v;b{kEvwCI&V4IgQ%E(O3qARbKCGdIz)Y
k8Dn*P#;pF^`!;<?E_Isr&X%rwYS=?P4|#i+-OmLMs<0wMt(3c;5Nu9061k|BeSoL9dO>)TF*sWSa+_sXIm<845AEV!mL|xH#l<rPNK=FHFQZ)
tTB_=ebnjw8&mXmHW)k+wv>h?)*eGREI|;#cmx3*IIU~IFOJ|Rk25dyV+^?Ov)bTfm&9T7QO3Y_31Ba^pL=AAmEOZO=Q3jCR3t54y@*G&y)Nzx
wR>^}SF8AEj2RO(#NTQbSK64`y6lc=ww&RWS`yNc2zR*Oe7J1NK6FuO#lCckE;->fI2a|O-(3#@nX2#g3o`xwU>G#3apvhFyc^|*&zYH|>$eN&
F_2w-=zjuFet1z~=Kwy7j}(T9_*du<E@TQ60yo#1Qz=yV2GRh#1p*{~nc$Vcj|1uhs(v;!O&3~g@t5?S>HF8g+O{cNHMitX<vMN^;>o$bD7o?l
8sc%p&Vc#O_yadRc0MMZbqme+{5h4~mbW7Zw^4wWv_BQyD5h2Q5BWTUib54$-{3<hP=h;nL<%NC$sIKu&%f}Ob)9%}>i0-Tr>Mr@dBdXC=OZKg
SOqgU2*mkeP1jLk*L3*4^nt#C{2OZRa$NgXpG$H&$_4w<_+%NEvB-@>*2IGEN;St8A2vh_i~yh~jQYk<M}L2y4%Up7MWjWL4U{W<lTkDfEH;Vs
OL#c`?G65h3!l7tPjpCc<f6t=)i1JQ0As4UtuRL4%KbM6OkLR>vhyl$se^8tW(F6k=fa8aN{>$Vaz-*Dgt7X<Iw46UNXwbx;GXvf8J=(+)svgF
O>zZp#S(Qt-)bWWuqGR!aA~1M#9^RAkVj!+JIah5fv5yn);y?64SKC#|Hi$Yp{AD2(#0I3ZSI9I4d%PP;3N{$It;FgELXdV`cFa+Dgd}vce?O{
z*1k0HF=T)
"""


def settings():
    return {"steps": 1, "batch": 1, "context": 64, "packing": "packed", "tokens": 59}


def vocabulary(stories, V):
    return [b"\0", *sorted({letter.encode() for story in stories for letter in story})]


def init(key, V):
    data = base64.b85decode("".join(WEIGHTS.split()))
    return jnp.array(np.frombuffer(data, np.int8)[: V * V].reshape(V, V) / 16, jnp.float32)


def step(state, tokens, segments, number):
    return state, jnp.float32(0)


def logits(state, tokens, segments):
    return state[tokens]
