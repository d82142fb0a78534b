\echo Use "CREATE EXTENSION ccopt" to load this file. \quit
