"""Sample data: the tables that one hour of a share group produces, and a broker and a gateway that serve this data."""
