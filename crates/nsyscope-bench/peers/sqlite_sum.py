"""Sums up kernels by name in SQLite itself, as `nsys stats` does: sqlite_sum.py CAPTURE.sqlite"""

import sqlite3
import sys

from common import KERNELS, show

# The median by two window functions, as the report's own SQL has it.
SQL = f"""
WITH times AS (
    SELECT demangledName AS id, end - start AS ns,
           row_number() OVER (PARTITION BY demangledName ORDER BY end - start) AS at,
           count(*) OVER (PARTITION BY demangledName) AS calls
    FROM {KERNELS}
)
SELECT value, max(calls), sum(ns) AS total, avg(ns),
       avg(CASE WHEN at IN ((calls + 1) / 2, (calls + 2) / 2) THEN ns END), min(ns), max(ns)
FROM times JOIN StringIds ON StringIds.id = times.id
GROUP BY times.id ORDER BY total DESC
"""

# Without the median the engine needs to sort nothing.
PLAIN = f"""
SELECT value, calls, total, mean, mean, least, greatest FROM (
    SELECT demangledName AS id, count(*) AS calls, sum(end - start) AS total,
           avg(end - start) AS mean, min(end - start) AS least, max(end - start) AS greatest
    FROM {KERNELS} GROUP BY demangledName
) JOIN StringIds USING (id) ORDER BY total DESC
"""

plain = "--plain" in sys.argv
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
show(db.execute(PLAIN if plain else SQL).fetchall())
