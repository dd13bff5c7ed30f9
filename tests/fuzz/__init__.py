"""Random bad inputs to all that is public: each is refused by name, or gives a right answer."""
