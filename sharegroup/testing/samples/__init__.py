"""Sample data: the tables of an hour of a share group, and a broker and a gateway that serve them."""
