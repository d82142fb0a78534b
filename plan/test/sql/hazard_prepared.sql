-- Kept plans: settings, statistics and tables change between planning and running. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_prepared;
SET search_path = hazard_prepared;
CREATE TABLE h (id int, k int, v numeric(10,2), t text, c char(8));
INSERT INTO h SELECT i, i % 5, i / 4.0, 't' || i % 7, 'c' || i % 3 FROM generate_series(1, 3000) i;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 4) i;
ANALYZE h, u;
SET ccopt.force = on;
SET ccopt.buffer = force;
SET plan_cache_mode = force_generic_plan;
PREPARE a(numeric, text) AS SELECT k, count(*), sum(v) FROM h WHERE v > $1 AND t = $2 GROUP BY k ORDER BY k;
PREPARE b(int) AS SELECT u.name, count(*) FROM h JOIN u USING (k) WHERE h.id % 10 = $1 GROUP BY 1 ORDER BY 1;
PREPARE c(char, numeric) AS SELECT count(*) FROM h WHERE c = $1 OR v = $2;
PREPARE d(int[]) AS SELECT count(*) FROM h WHERE k = ANY ($1);
PREPARE e(bigint, float8, date) AS SELECT count(*) FROM h WHERE id < $1 AND v < $2 AND $3 > '2000-01-01';
PREPARE f(int) AS SELECT id FROM h WHERE id > $1 ORDER BY id LIMIT $1;
EXECUTE a(500, 't1');
EXECUTE a(NULL, 't1');
EXECUTE a(1e30, 't1');
EXECUTE a('NaN', 't1');
EXECUTE a(-0.001, NULL);
EXECUTE a(10.005, 't2');
EXECUTE b(3);
EXECUTE b(NULL);
EXECUTE c('c1', 1);
EXECUTE c('c1   ', 1);
EXECUTE c('c1 x', 700.125);
EXECUTE c(NULL, 700.25);
EXECUTE d('{1,2}');
EXECUTE d('{1,NULL}');
EXECUTE d('{}');
EXECUTE d(NULL);
EXECUTE e(100, 5.1, '2001-01-01');
EXECUTE e(9000000000, 'NaN', 'infinity');
EXECUTE e(100, '-Infinity', '2001-01-01');
EXECUTE f(3);
EXECUTE f(0);

-- settings change after planning: neither the plan nor its results change
SET ccopt.enabled = off;
EXECUTE a(500, 't1');
EXECUTE b(3);
SET ccopt.enabled = on;
SET ccopt.enable_batch_scan = off;
SET ccopt.enable_batch_agg = off;
SET ccopt.buffer = off;
SET ccopt.buffer_mode = copy;
SET work_mem = '64kB';
EXECUTE a(500, 't1');
EXECUTE b(3);
RESET ccopt.enable_batch_scan;
RESET ccopt.enable_batch_agg;
SET ccopt.buffer = force;
RESET work_mem;
-- a cursor over a kept plan
BEGIN;
CREATE FUNCTION over_plan() RETURNS SETOF text LANGUAGE plpgsql AS
$$ DECLARE r record; BEGIN FOR r IN EXECUTE 'EXECUTE b(4)' LOOP RETURN NEXT r::text; END LOOP; END $$;
SELECT * FROM over_plan();
COMMIT;
-- rows, statistics and tables change
INSERT INTO h SELECT i, i % 5, i, 't1', 'c1' FROM generate_series(3001, 6000) i;
EXECUTE a(5000, 't1');
ANALYZE h;
EXECUTE a(5000, 't1');
ALTER TABLE h DROP COLUMN c;
EXECUTE c('c1', 1);
EXECUTE a(5000, 't1');
ALTER TABLE h ADD COLUMN c char(8) DEFAULT 'c2';
EXECUTE c('c2', 1);
ALTER TABLE h ALTER COLUMN v TYPE numeric(14,3);
EXECUTE a(5990, 't1');
ALTER TABLE h ALTER COLUMN v TYPE float8;
EXECUTE a(5990, 't1');
ALTER TABLE h ALTER COLUMN v TYPE numeric;
EXECUTE a(5990, 't1');
CREATE INDEX ON h (id);
EXECUTE f(3);
DROP TABLE u;
EXECUTE b(3);
CREATE VIEW u AS SELECT DISTINCT k, 'view ' || k AS name FROM h;
EXECUTE b(3);
CREATE TEMP TABLE u (k int, name text);
EXECUTE b(3);
INSERT INTO pg_temp.u VALUES (1, 'temp');
SET search_path = pg_temp, hazard_prepared;
EXECUTE b(1);
SET search_path = hazard_prepared;
EXECUTE b(1);
DISCARD PLANS;
EXECUTE b(1);
DEALLOCATE ALL;
-- functions of SQL and plpgsql keep plans; here by role, by search path, over an error within
CREATE FUNCTION total(int) RETURNS numeric LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT sum(v) FROM h WHERE k = $1); END $$;
SELECT total(1), total(2), total(NULL);
CREATE FUNCTION guarded(int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE s numeric;
BEGIN
  SELECT sum(100 / (id - $1)) INTO s FROM h WHERE k = 1;
  RETURN s;
EXCEPTION WHEN division_by_zero THEN RETURN -1;
END $$;
SELECT guarded(1), guarded(2), guarded(6), guarded(1000001);
SELECT k, total(k) FROM h WHERE id < 4 ORDER BY id;
DROP TABLE pg_temp.u;
DROP SCHEMA hazard_prepared CASCADE;
