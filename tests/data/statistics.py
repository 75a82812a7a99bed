# Values of scipy and statsmodels for tests/bench_statistics.rs; writes statistics.json into the working folder.
# To be run with `python -P`: its name is that of a module of the standard library.
import numpy as np, scipy, json
from scipy import stats
import scikit_posthocs as sp
print(scipy.__version__, sp.__version__)
print([round(stats.studentized_range.ppf(0.95,k,np.inf)/np.sqrt(2),4) for k in range(2,21)])
rng=np.random.default_rng(1)
D=np.array([[0.763,0.768,0.771,0.798],[0.599,0.591,0.590,0.569],[0.954,0.971,0.968,0.967],[0.628,0.661,0.654,0.657],[0.882,0.888,0.886,0.898],[0.936,0.931,0.916,0.931],[0.661,0.668,0.609,0.685],[0.583,0.583,0.563,0.625],[0.775,0.838,0.866,0.875],[1,1,1,1],[0.940,0.962,0.965,0.962],[0.619,0.666,0.614,0.669],[0.972,0.981,0.975,0.975],[0.957,0.978,0.946,0.970]])
f=stats.friedmanchisquare(*D.T); print("friedman",repr(f.statistic),repr(f.pvalue))
d=np.round((D[:,1]-D[:,0])*1000)
w=stats.wilcoxon(d, method='approx'); print("wilcoxon auto",d,w)
cases=[]
for (n,m,kind) in [(5,7,'f'),(8,30,'f'),(12,15,'f'),(10,10,'t'),(30,30,'t'),(3,4,'t')]:
    a=rng.normal(size=n); b=rng.normal(0.7,size=m)
    if kind=='t': a=np.round(a*2); b=np.round(b*2)
    else: a=np.round(a,4); b=np.round(b,4)
    # Small samples: exactly, with equal values by every permutation. The automatic choice of scipy approximates from nine values on.
    few=dict(method=stats.PermutationMethod(n_resamples=10**7)) if n*m<=400 and kind=='t' else {}
    if n*m<=400 and kind=='f': few=dict(method='exact')
    r=stats.mannwhitneyu(a,b,**few); cases.append(dict(a=a.tolist(),b=b.tolist(),u=float(r.statistic),p=float(r.pvalue)))
# Samples that do not overlap, and one whose values are all alike.
for a,b in [([1.,2,3,4,5],[6.,7,8,9,10]),([1.,1,1,1,1],[6.,7,8,9,10]),([1.,1,2,2],[2.,3,3,3,9,9,9])]:
    r=stats.mannwhitneyu(a,b,method=stats.PermutationMethod(n_resamples=10**7)); cases.append(dict(a=a,b=b,u=float(r.statistic),p=float(r.pvalue)))
mw=cases
wc=[]
for (n,kind) in [(6,'f'),(20,'f'),(60,'f'),(25,'t'),(12,'z')]:
    d=rng.normal(0.3,size=n)
    d=np.round(d*3) if kind!='f' else np.round(d,5)
    if kind=='t': d[d==0]=1
    if kind=='z': d[0]=0
    kw={} if kind=='f' else dict(method='approx')
    r=stats.wilcoxon(d,**kw); wc.append(dict(d=d.tolist(),w=float(r.statistic),p=float(r.pvalue)))
fr=[]
for (n,k,kind) in [(10,5,'f'),(8,3,'t'),(20,12,'f')]:
    t=rng.normal(size=(n,k))+np.arange(k)*0.2
    if kind=='t': t=np.round(t)
    else: t=np.round(t,4)
    r=stats.friedmanchisquare(*t.T); ranks=np.apply_along_axis(stats.rankdata,1,t).mean(axis=0)
    fr.append(dict(table=t.tolist(),chi2=float(r.statistic),p=float(r.pvalue),ranks=ranks.tolist()))
from statsmodels.stats.multitest import multipletests
p=[0.001,0.04,0.03,0.2,0.9,0.008]
h=multipletests(p,method='holm')[1].tolist()
json.dump(dict(source=f"scipy {scipy.__version__}, scikit-posthocs {sp.__version__}, statsmodels; tests/data/statistics.py",mann_whitney=mw,wilcoxon=wc,friedman=fr,holm=dict(p=p,adjusted=h)),open('statistics.json','w'),indent=1)
