//! The five transactions in SQL: as stored procedures, and as statements of the client.
