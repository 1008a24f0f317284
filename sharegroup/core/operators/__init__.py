"""The stateful operators of the two streaming queries, as code that does not depend on Spark.

An operator converts the rows of the request topics to calls of the pure state machines. These machines do not depend on
each other. `sharegroup.spark` passes the input rows and the previous state of a key to the operator. It then applies
the effects and the new state that the operator returns. Operators have no clock and no I/O. The times of a micro-batch
are arguments (`operator`).
"""
