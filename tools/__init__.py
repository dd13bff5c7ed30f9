"""What maintainers run by hand: it writes files of the package, and is not part of it."""
