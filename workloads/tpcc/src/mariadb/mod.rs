//! MariaDB, alone or with Spider over several servers: load, the five transactions, the consistency conditions.
