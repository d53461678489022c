"""The compiled forms of the primitives: functions of the same name and arguments as in :mod:`pysldl.backend`.

The modules are imported where numba is installed and a primitive is first called. Compiled loops are kept in
numba's cache, next to the source or in the user's cache folder.
"""
