"""The same in DuckDB, through its SQLite scanner: duckdb_sum.py CAPTURE.sqlite"""

import glob
import os
import sys

import duckdb
import duckdb_extension_sqlite_scanner

from common import KERNELS, show

folder = os.path.dirname(duckdb_extension_sqlite_scanner.__file__)
(extension,) = glob.glob(f"{folder}/extensions/**/*.duckdb_extension", recursive=True)
db = duckdb.connect()
db.execute(f"LOAD '{extension}'")
db.execute(f"ATTACH '{sys.argv[1]}' AS capture (TYPE sqlite, READ_ONLY)")
show(
    db.execute(f"""
    SELECT value, calls, total, mean, median, least, greatest FROM (
        SELECT demangledName AS id, count(*) AS calls, sum("end" - start) AS total,
               avg("end" - start) AS mean, median("end" - start) AS median,
               min("end" - start) AS least, max("end" - start) AS greatest
        FROM capture.{KERNELS} GROUP BY demangledName
    ) JOIN capture.StringIds USING (id) ORDER BY total DESC
    """).fetchall()
)
