"""List, describe and delete groups; describe, alter and delete their offsets."""
