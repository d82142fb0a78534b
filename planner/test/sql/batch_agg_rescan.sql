-- BatchAgg run again and again: LATERAL, correlated sub-selects, prepared statements; and what it refuses. same() is
-- batch_agg.sql's.
SET client_min_messages = warning;
SET search_path = batch_agg;
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
SELECT count(DISTINCT i2) FROM n;
SELECT sum(d ORDER BY id) FROM n;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM n;
SELECT c1, b, count(*) FROM n GROUP BY GROUPING SETS ((c1), (b));
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
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || query LOOP
    RETURN NEXT regexp_replace(line, 'Memory Usage: \d+', 'Memory Usage: N');
  END LOOP;
END $$;
EXPLAIN (COSTS off) SELECT p.name, sum(n.d) FROM n JOIN pk p ON p.id = n.i4 GROUP BY p.name;
SET ccopt.enable_batch_scan = off;
SELECT * FROM explained('SELECT c1, sum(d * (1 - e)), count(*) FROM n GROUP BY c1');
SELECT * FROM explained('SELECT sum(d), min(d) FROM nan');
