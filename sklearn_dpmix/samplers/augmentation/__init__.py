"""Data augmentation: chains that impute the confidential records behind a release of sums over them."""
