"""The same in pandas, from the three columns that it needs: pandas_sum.py CAPTURE.sqlite"""

import sqlite3
import sys

import pandas

from common import KERNELS, show

db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
kernels = pandas.read_sql(f"SELECT demangledName AS id, start, end FROM {KERNELS}", db)
names = pandas.read_sql("SELECT id, value FROM StringIds", db).set_index("id")["value"]
kernels["ns"] = kernels["end"] - kernels["start"]
rows = kernels.groupby("id")["ns"].agg(["count", "sum", "mean", "median", "min", "max"])
rows = rows.sort_values("sum", ascending=False)
rows.insert(0, "name", names.reindex(rows.index))
show(list(rows.itertuples(index=False, name=None)))
