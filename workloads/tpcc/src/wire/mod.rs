//! PostgreSQL as a [`crate::backend::Backend`]: P nonblocking connections in one epoll set, the extended protocol, pipelined and
//! binary.
