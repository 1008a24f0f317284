"""What a member of a share group is, whoever hosts it: membership, demands, holdings, acknowledgements; no Spark."""
