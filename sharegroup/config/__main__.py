"""`python -m sharegroup.config`: print every configuration key with its default, bounds and meaning."""

from sharegroup.config.reference import reference

if __name__ == "__main__":
    print(reference())
