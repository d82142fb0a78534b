-- BatchAgg run repeatedly: LATERAL, correlated sub-selects, prepared statements; and what it refuses.
-- same() is lib/batch_agg_same.sql's.
SET client_min_messages = warning;
CREATE SCHEMA batch_agg_rescan;
SET search_path = batch_agg_rescan;

\getenv inputs PG_ABS_SRCDIR
\set helpers :inputs '/lib/batch_agg_same.sql'
\set ECHO none
\i :helpers
\set ECHO all

CREATE TABLE n (id int, i2 int2, i4 int4, i8 int8, d numeric(12,2), e numeric(5,2), w numeric(18,4), z numeric(6,0),
                u numeric, day date, ts timestamp, tz timestamptz, o oid, b bool, c "char",
                c1 char(1), c10 char(10), v varchar(12), t text, f float8);
INSERT INTO n SELECT i, i % 300 - 150, i * 7919 % 100003 - 50000, (i::int8 * 1000003) % 99999999977 - 5000000000,
    (i * 31 % 20011 - 10000) / 100.0, i % 100 / 100.0, (i * 104729::int8 % 2000000000) / 10000.0 - 99999, i % 77 - 38,
    i / 7.0, date '1995-01-01' + i % 400, timestamp '2001-02-03 04:05:06' + i % 50 * interval '37 min',
    timestamptz '2001-02-03 04:05:06+00' - i % 61 * interval '1 day', i % 90, i % 3 = 0, (65 + i % 4)::"char",
    chr(65 + i % 3), 'k' || i % 20, 'v' || i % 9, 'text ' || i % 40, i * 0.1
  FROM generate_series(1, 5000) i;
-- NULL in each column, in other rows
UPDATE n SET i2 = NULL WHERE id % 11 = 0;
UPDATE n SET i4 = NULL, e = NULL WHERE id % 13 = 0;
UPDATE n SET i8 = NULL, d = NULL WHERE id % 17 = 0;
UPDATE n SET w = NULL, day = NULL, ts = NULL, tz = NULL, o = NULL WHERE id % 7 = 0;
UPDATE n SET c1 = NULL, t = NULL, b = NULL WHERE id % 19 = 0;
UPDATE n SET c10 = NULL, v = NULL, c = NULL WHERE id % 23 = 0;
CREATE TABLE pk (id int PRIMARY KEY, name text, price numeric(8,2), n int);
INSERT INTO pk SELECT i, 'name ' || i, i / 10.0, i % 5 FROM generate_series(1, 500) i;
INSERT INTO pk VALUES (501, NULL, NULL, NULL);
CREATE TABLE nan (id int, k numeric(6,2), d numeric(8,2), e numeric(4,1));
INSERT INTO nan SELECT i, CASE WHEN i % 50 = 0 THEN 'NaN' WHEN i % 9 = 0 THEN NULL ELSE i % 20 / 4.0 END,
    CASE WHEN i % 501 = 0 THEN 'NaN' ELSE i / 3.0 END, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 10 END FROM generate_series(1, 4000) i;
ANALYZE n, pk, nan;

CREATE TABLE o AS SELECT i AS k, i * 5.25::numeric AS low, i % 2 AS half FROM generate_series(1, 40) i;
INSERT INTO o VALUES (NULL, NULL, NULL), (1000, 'NaN', 0);
ANALYZE o;
SELECT same('SELECT o.k, s.* FROM o, LATERAL (SELECT count(*) AS n, sum(d) AS s, avg(e) AS a FROM n WHERE n.i2 = o.k) s');
SELECT same('SELECT o.k, s.* FROM o, LATERAL (SELECT c1, count(*) AS n, sum(d) AS s FROM n WHERE n.i2 < o.k GROUP BY c1) s');
SELECT same('SELECT o.k, (SELECT sum(d) FROM n WHERE n.i2 = o.k) FROM o');
SELECT same('SELECT o.k, (SELECT max(d + o.low) FROM n WHERE n.i2 = o.k), (SELECT sum(n.i4 * o.k) FROM n WHERE n.id < 50) FROM o');
SELECT same('SELECT o.k, (SELECT sum(CASE WHEN n.d > o.low THEN n.d * o.low ELSE 0 END) FROM n WHERE n.id < 500) FROM o');
SELECT same('SELECT o.k, (SELECT count(*) FILTER (WHERE n.i4 < o.k * 100) FROM n) FROM o');
SELECT same('SELECT o.k FROM o WHERE o.low < (SELECT avg(d) + 100 FROM n WHERE n.i2 = o.k)');
SELECT same('SELECT o.k, (SELECT string_agg(s.c1 || s.m, '','' ORDER BY s.c1) FROM (SELECT c1, max(i2) AS m FROM n WHERE n.i2 < o.k GROUP BY c1) s)
             FROM o');
-- the same groups again
SET enable_material = off;
SELECT same('SELECT o.k, s.* FROM o LEFT JOIN (SELECT i2, count(*) AS c, sum(d) FROM n GROUP BY i2) s ON s.i2 > o.k + 100');
RESET enable_material;

-- parameters, also once the plan is generic
SET ccopt.force = on;
PREPARE filtered (int, numeric) AS SELECT count(*), sum(d * $2), sum(d) FILTER (WHERE i4 < $1), avg(CASE WHEN i4 > $1 THEN $2 ELSE d END) FROM n;
SET plan_cache_mode = force_generic_plan;
SET ccopt.require = 'BatchAgg';
EXECUTE filtered (10, 2.5);
EXECUTE filtered (NULL, NULL);
EXECUTE filtered (0, 'NaN');
EXECUTE filtered (-7, 1e20);
EXECUTE filtered (7, 0.123456789012345678901);
SET ccopt.enabled = off;
SET ccopt.require = '';
DEALLOCATE filtered;
PREPARE filtered (int, numeric) AS SELECT count(*), sum(d * $2), sum(d) FILTER (WHERE i4 < $1), avg(CASE WHEN i4 > $1 THEN $2 ELSE d END) FROM n;
EXECUTE filtered (10, 2.5);
EXECUTE filtered (NULL, NULL);
EXECUTE filtered (0, 'NaN');
EXECUTE filtered (-7, 1e20);
EXECUTE filtered (7, 0.123456789012345678901);
RESET ccopt.enabled;
RESET plan_cache_mode;

-- a cursor that only goes forward, with groups fetched in parts
BEGIN;
SET LOCAL ccopt.require = 'BatchAgg';
DECLARE c NO SCROLL CURSOR FOR SELECT c1, count(*) FROM n WHERE c1 = 'A' GROUP BY c1;
SET LOCAL ccopt.require = '';
FETCH ALL FROM c;
FETCH ALL FROM c;
COMMIT;

-- refused, each with its reason
SET ccopt.require = 'BatchAgg';
SELECT sum(f) FROM n;
SELECT avg(u) FROM n;
SELECT stddev(d) FROM n;
SELECT count(DISTINCT i2), count(*) FROM n;
SELECT sum(d ORDER BY id) FROM n;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM n;
SELECT c1, b, count(DISTINCT d) FROM n GROUP BY GROUPING SETS ((c1), (b));
SELECT sum(d / 2) FROM n;
SELECT sum(CASE WHEN f > 1 THEN 1 ELSE 0 END) FROM n;
SELECT count(*) FILTER (WHERE upper(t) = 'A') FROM n;
SELECT c1, count(*), random() * 0 FROM n GROUP BY c1;
SELECT max(t) FROM n;
SELECT c1, generate_series(1, 2), count(*) FROM n GROUP BY 1, 2;
SELECT i2, count(*) FROM (SELECT i2 FROM n FOR UPDATE) q GROUP BY i2;
SET enable_hashagg = off;
SELECT i2, count(*) FROM n GROUP BY i2;
RESET enable_hashagg;
RESET ccopt.require;

-- EXPLAIN
EXPLAIN (COSTS off, VERBOSE) SELECT c1, upper(c10), sum(d * (1 - e)), count(*) FILTER (WHERE b) FROM n GROUP BY c1, c10 HAVING sum(d) > 0;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN SELECT public.plan_lines(query, 'ANALYZE, COSTS off, TIMING off, SUMMARY off') LOOP
    RETURN NEXT regexp_replace(line, 'Memory Usage: \d+', 'Memory Usage: N');
  END LOOP;
END $$;
EXPLAIN (COSTS off) SELECT p.name, sum(n.d) FROM n JOIN pk p ON p.id = n.i4 GROUP BY p.name;
SET ccopt.enable_batch_scan = off;
SELECT * FROM explained('SELECT c1, sum(d * (1 - e)), count(*) FROM n GROUP BY c1');
SELECT * FROM explained('SELECT sum(d), min(d) FROM nan');
