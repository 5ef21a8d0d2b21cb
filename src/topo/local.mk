# (room topo)
