//! An auction site in the shape of RUBiS, and who visits it: PHP pages on Apache, seven tables in MariaDB, mixes for browsing and
//! bidding, and an open-loop load generator.
//!
//! It is the workload of `placement`: a web server and a database server on one machine, with requests of very different kinds.
