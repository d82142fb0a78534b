-- BatchAgg: rows that numbers cannot hold, and batches that would overflow.
-- same() is lib/batch_agg_same.sql's.
SET client_min_messages = warning;
CREATE SCHEMA batch_agg_odd;
SET search_path = batch_agg_odd;

\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/batch_agg_same.sql'
\set ECHO none
\i :helpers
\set ECHO all


-- NaN among decimals: as values, as keys
CREATE TABLE nan (id int, k numeric(6,2), d numeric(8,2), e numeric(4,1));
INSERT INTO nan SELECT i, CASE WHEN i % 50 = 0 THEN 'NaN' WHEN i % 9 = 0 THEN NULL ELSE i % 20 / 4.0 END,
    CASE WHEN i % 501 = 0 THEN 'NaN' ELSE i / 3.0 END, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 10 END FROM generate_series(1, 4000) i;
ANALYZE nan;
SELECT same('SELECT count(*), count(d), sum(d), avg(d), min(d), max(d), sum(d * e), sum(e), min(e), max(e) FROM nan');
SELECT same('SELECT k, count(*), count(d), sum(d), avg(d), min(d), max(d), sum(d * e), sum(e), avg(e), min(e) FROM nan GROUP BY k');
SELECT same('SELECT id % 5, k, sum(d), count(k), max(k) FROM nan GROUP BY 1, 2');
SELECT same('SELECT k, sum(d) FILTER (WHERE d < 1000), count(*) FILTER (WHERE d = ''NaN''), sum(e) FILTER (WHERE d > 500) FROM nan GROUP BY k');
SELECT same('SELECT k, sum(CASE WHEN d > 500 THEN e ELSE 0 END), sum(CASE WHEN d < 500 THEN d ELSE 1.500 END), count(CASE WHEN d > 5 THEN k END)
             FROM nan GROUP BY k');
SELECT same('SELECT sum(id), avg(id), min(id), max(id), count(id) FROM nan WHERE d > 0');
SELECT same('SELECT k, sum(d), max(e) FROM nan GROUP BY k HAVING sum(d) > 2000');
SELECT same('SELECT id % 1000, sum(d), max(e) FROM nan GROUP BY 1 HAVING sum(d) < 2000 AND max(d) >= 5');
-- nothing but NaN
SELECT same('SELECT sum(d), avg(d), min(d), max(d), count(d) FROM nan WHERE id % 501 = 0');

-- a declared scale that the values do not have, as after a change of pg_attribute by hand: display scales differ,
-- equal values are one group, and the first or last value is shown
CREATE TABLE loose (i int, x numeric);
INSERT INTO loose SELECT i, CASE WHEN i % 4 = 0 THEN (i % 10)::numeric WHEN i % 4 = 1 THEN i % 10 + 0.500
    WHEN i % 101 = 0 THEN 'Infinity' WHEN i % 103 = 0 THEN '-Infinity' WHEN i % 107 = 0 THEN 1e30 WHEN i % 109 = 0 THEN 0.125
    ELSE round(i % 10 + 0.5, 2) END FROM generate_series(1, 3000) i;
UPDATE pg_attribute SET atttypmod = (10 << 16 | 2) + 4 WHERE attrelid = 'loose'::regclass AND attname = 'x';
SELECT same('SELECT x, count(*), sum(x), avg(x), min(x), max(x) FROM loose GROUP BY x');
SELECT same('SELECT i % 3, count(*), sum(x), avg(x), min(x), max(x), sum(x * 2) FROM loose GROUP BY 1');
SELECT same('SELECT x, i % 3, count(*), sum(x) FROM loose WHERE i > 4 GROUP BY 1, 2');
SELECT same('SELECT min(x), max(x), sum(x) FROM loose WHERE i < 90');
SELECT same('SELECT min(x), max(x), sum(x) FROM loose WHERE x < 4.1 AND i % 4 < 2');
SELECT same('SELECT max(x), sum(x) FROM loose WHERE i IN (101, 103)');
SELECT same('SELECT i % 7, sum(x), avg(x) FROM loose WHERE i IN (101, 103, 107, 202, 206) GROUP BY 1');
SELECT same('SELECT sum(x), min(x), max(x) FROM loose WHERE i % 4 = 0 AND x <= 2');

-- near the ends of int64, and beyond
CREATE TABLE big (k int, i4 int4, i8 int8, d18 numeric(18,4), d8 numeric(18,8));
INSERT INTO big SELECT i % 3, CASE WHEN i % 2 = 0 THEN 2147483647 ELSE -2147483648 END,
    CASE i % 3 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 ELSE i END,
    CASE i % 3 WHEN 0 THEN 99999999999999.9999 ELSE -99999999999999.9999 END, 9999999999.99999999 FROM generate_series(1, 3000) i;
ANALYZE big;
SELECT same('SELECT sum(i4), avg(i4), sum(i8), avg(i8), min(i8), max(i8), sum(d18), avg(d18), sum(d8) FROM big');
SELECT same('SELECT k, sum(i4), avg(i4), sum(i8), avg(i8), min(i8), max(i8), sum(d18), avg(d18), min(d18), sum(d8) FROM big GROUP BY k');
SELECT same('SELECT k, sum(d18 * d18), avg(d18 * d8), min(d18 * d8), max(d18 * d8 * d8), sum(d18 * i8), sum(d8 * d8 * d8 * d8) FROM big GROUP BY k');
SELECT same('SELECT sum(d18 * d18), avg(d18 * d8), min(d18 * d8), max(d18 * d8 * d8), sum(d8 + i8) FROM big');
SELECT same('SELECT k, sum(CASE WHEN i4 > 0 THEN d18 ELSE d8 * d8 END), avg(CASE WHEN i8 > 5 THEN d18 ELSE d8 END) FROM big GROUP BY k');
SELECT same('SELECT count(d18 * d18), count(i8), count(d18 * d18) FILTER (WHERE i4 > 0) FROM big');
-- overflow is an error as in core, and only where core computes
SELECT same('SELECT sum(i4 + 1) FROM big');
SELECT same('SELECT sum(i4 + 1) FROM big WHERE i4 < 0');
SELECT same('SELECT sum(i4 + 1) FILTER (WHERE i4 < 0) FROM big');
SELECT same('SELECT sum(CASE WHEN i4 < 0 THEN i4 + 1 ELSE 0 END) FROM big');
SELECT same('SELECT k, max(i8 * 2) FROM big GROUP BY k');
SELECT same('SELECT min(-i8) FROM big');
SELECT same('SELECT min(-i8) FROM big WHERE k <> 1');
SELECT same('SELECT sum(i4::int2) FROM big');
SELECT same('SELECT sum((i4 * 0)::int2 + k::int2) FROM big');

-- missing attributes, and a scale that changed
ALTER TABLE big ADD later numeric(6,3) DEFAULT 1.5, ADD never int;
INSERT INTO big SELECT 4, i, i, i, i, i, i FROM generate_series(1, 10) i;
SELECT same('SELECT k, sum(later), avg(later), min(later), count(never), sum(never), sum(later * never) FROM big GROUP BY k');
SELECT same('SELECT later, never, count(*), sum(d18) FROM big GROUP BY later, never');
ALTER TABLE big DROP COLUMN i4;
SELECT same('SELECT k, sum(later), sum(i8) FROM big GROUP BY k');
