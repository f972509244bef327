"""What frameworks' own parsers and checks refuse, against memlint: compare.py, and one module for each framework."""
