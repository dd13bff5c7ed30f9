FILES = lambda number, seed: "right"
