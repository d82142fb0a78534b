"""Who uses whom: the arrows between the files of this repository, and the rules that they keep."""
