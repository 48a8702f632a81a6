"""Hosts inside one machine, made of Linux namespaces, on which MPI programs run as on a cluster (`scripts/cluster`).

    this process            asks for everything, passes output and signals on              command.py
      process 1             of a process namespace that ends with this process             cluster.py
        node0, node1, ...   a host each: namespaces of its own, a shell for remote starts  host.py, remote_shell.py
          the launcher      on node0; starts ranks on all of them                          launchers.py

The hosts are joined by a bridge, or by a relay with latencies (network.py).  Nothing needs to be cleaned up: all of it
lives in namespaces below process 1, and the kernel ends process 1 when this process ends, by whatever cause.
"""
