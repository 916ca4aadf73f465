"""Abbreviations after which a full stop seldom ends a sentence (Danish, Spanish, German, English).

Entries are case folded and carry no final full stop. Dotted ones ("f.eks", "bl.a") need no entry
where their parts are short: the splitter recognises the form. Abbreviations that are also common
last words of a sentence ("sig", "no", "med") are left out.
"""

from __future__ import annotations

# These call for a name, a number or a place, so not even a line break ends the sentence.
PREFIXES = frozenset(
    """
    dr dra drs prof hr fr frk fru mr mrs ms st skt sct sr sra srta sres dña lic ing av avd avda
    avgda ctra pza plza pso pº urb cra nr núm num nº fig figs kap jf jvf cf tlf tel telf tlfno cpr
    dipl
    """.split()
)

ABBREVIATIONS = PREFIXES | frozenset(
    """
    afd afs afsn amb chr kgs cand ss ang anm beh bem bet bl ca diag div ds dvs eks ekskl em emb eng
    etc evt fax ff fhv fkt fm fork forts gl ggl hhv hosp inkl int iv jan feb mar apr jun jul aug
    sep sept okt nov dec kgl kl km kr kt lb lgh lign maks max mdl mdr mfl mgl mht mia min mio mv
    mvh nuv obj obs omr opr osv p pga pkt pl pr præp pt ptt ref resp sek sml spm stk str stræde
    sygepl td temp th tidl tsk tv undtag vedr vha vs årh øvr admón adm apdo cdad col ee uu dd aprox
    approx bco cía cód cod dcha depto dpto ed edif ej entlo esc esq exp ext gral hab hras igl izda
    izq izqda kms máx máximo mín pág págs pdo pers ppal prov pte ptos rte sdo sec seg sto tto uds
    univ vol abb abs abt allg anl bds betr bez bzgl bzw chir dgl doz ebd eigtl einschl evtl exkl
    gem ggf ggfs hrsg insb insbes klin li linksseit lt mind mögl nachm neurol od pat path pd prim
    priv rd rechtsseit sog stat sonst spez std stellv tgl tägl usw verg vgl vorm wg zt zw zzt ärztl
    appt assn bros cert dept dist est gen gov inc jr ltd mt pp pres sen sgt supt pts dx hx tx rx fx
    mg kg ml mcg
    """.split()
)

# "am 3. Januar": an ordinal number before a capitalised month.
MONTHS = frozenset(
    """
    januar februar märz marts april mai maj juni juli august september oktober november dezember
    december jan feb mär mar apr jun jul aug sep sept okt nov dez dec
    """.split()
)
