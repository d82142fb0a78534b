//! What the server used and was while a run went on: its CPU time, its checkpoints, its settings; on which CPUs it ran.
