"""Runs nsys-ai with DuckDB's SQLite scanner where it looks for it, so that it need download nothing:
run_nsys_ai.py COMMAND..."""

import glob
import os
import runpy
import sys

import duckdb
import duckdb_extension_sqlite_scanner

folder = os.path.dirname(duckdb_extension_sqlite_scanner.__file__)
(extension,) = glob.glob(f"{folder}/extensions/**/*.duckdb_extension", recursive=True)
# A no-op from the second time on.
duckdb.connect().execute(f"INSTALL '{extension}'")
sys.argv[0] = "nsys-ai"
runpy.run_module("nsys_ai", run_name="__main__")
