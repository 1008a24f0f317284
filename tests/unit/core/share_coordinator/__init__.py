"""Unit tests of the share coordinator; a package, so that they share their strategies."""
