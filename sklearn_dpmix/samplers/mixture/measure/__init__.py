"""The walk over mixing measures, for any number of records: its state, its moves, its atoms and its draws."""
