"""Explanations of a partitioned program: what it costs, why values are sharded as they are, and pictures.

communications   the communications of a schedule, with what each moves, and for whom
cost             bytes, seconds, work and memory of a schedule, by models
words            the same in words, value by value and communication by communication
measured         predicted and measured seconds side by side
picture          the program as HTML
"""
