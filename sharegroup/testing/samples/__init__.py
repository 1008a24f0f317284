"""Sample data: the tables after one hour of a share group, and a broker and a gateway that serve this data."""
