-- Functions that record their calls: how often, for which rows, in which order. expected/ is what a stock server
-- says.
SET client_min_messages = warning;
CREATE SCHEMA hazard_volatile;
SET search_path = hazard_volatile;
CREATE TABLE h (id int, k int, v numeric(10,2));
INSERT INTO h SELECT i, i % 5, i / 4.0 FROM generate_series(1, 3000) i;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 4) i;
ANALYZE h, u;
CREATE SEQUENCE s;
SET ccopt.force = on;
SET ccopt.buffer = force;

SELECT id, nextval('s') FROM h WHERE v < 1 ORDER BY id;
SELECT id, n FROM (SELECT id, nextval('s') AS n FROM h OFFSET 0) q LIMIT 2;
SELECT currval('s');
SELECT count(*), max(nextval('s')) FROM h WHERE v <= 10;
SELECT currval('s');
SELECT count(*) FROM h WHERE nextval('s') % 2 = 0 AND v < 10;
SELECT currval('s');
SELECT h.k, count(*) FROM h JOIN (SELECT k, nextval('s') AS n FROM u OFFSET 0) q ON q.k = h.k WHERE q.n > 0 GROUP BY h.k ORDER BY h.k;
SELECT currval('s');
SELECT k, count(*) FROM h GROUP BY k HAVING nextval('s') > 0 ORDER BY k;
SELECT currval('s');
SELECT count(*) FROM h WHERE EXISTS (SELECT 1 FROM u WHERE u.k = h.k AND nextval('s') > 0) AND h.id < 20;
SELECT currval('s');
SELECT setseed(0.5);
SELECT count(*) FROM h WHERE random() < 0.3 AND v < 500;
SELECT setseed(0.5);
SELECT id FROM h WHERE random() < 0.01 AND v < 500 ORDER BY random() LIMIT 3;
SELECT setseed(0.5);
SELECT k, sum((random() * 100)::int) FROM h GROUP BY k ORDER BY k;

-- a function that writes a log of its calls
CREATE TABLE diary (no serial, what text);
CREATE FUNCTION note(what text) RETURNS bool LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO diary (what) VALUES ($1); RETURN true; END $$;
SELECT count(*) FROM (SELECT 1 FROM h WHERE id <= 3 AND note('scan ' || id) LIMIT 2) q;
SELECT h.id, u.name FROM h JOIN u ON u.k = h.k AND note('join ' || h.id) WHERE h.id <= 4 ORDER BY h.id;
SELECT id FROM h WHERE v < 1 AND note('after ' || id) ORDER BY id;
SELECT id FROM h WHERE note('before ' || id) AND v < 0.3 AND id < 3 ORDER BY id;
SELECT sum(q.one) FROM (SELECT CASE WHEN note('target ' || id) THEN 1 END AS one, k FROM h WHERE id <= 2 OFFSET 0) q JOIN u USING (k);
SELECT split_part(what, ' ', 1), count(*), min(no), max(no) FROM diary GROUP BY 1 ORDER BY 3;
-- the function changes the table that is being scanned: a scan does not see what began after it
CREATE FUNCTION breed(int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO h VALUES ($1 + 100000, 1, 0); UPDATE h SET v = -1 WHERE id = $1 + 1; RETURN $1; END $$;
SELECT count(breed(id)), sum(v) FROM h WHERE id < 10;
SELECT count(*), sum(v) FROM h WHERE id < 11 OR id > 100000;
-- stable functions are evaluated as a stock server does, for rows that are there
CREATE FUNCTION picky(int) RETURNS int STABLE LANGUAGE plpgsql AS
$$ BEGIN IF $1 = 7 THEN RAISE EXCEPTION 'seven'; END IF; RETURN $1; END $$;
SELECT count(*) FROM h WHERE id < 7 AND picky(id) > 0;
SELECT sum(picky(id)) FROM h WHERE id < 7;
SELECT sum(picky(id)) FROM h WHERE id < 8;
SELECT id, picky(id) FROM h WHERE id BETWEEN 1 AND 7 LIMIT 2;
-- what a stable function of the transaction returns may be a constant of a scan
SELECT count(*) FROM h WHERE v < 10 AND now() > '2000-01-01';
SELECT count(*) FROM h WHERE id < (current_setting('hazard.top', true) IS NULL)::int * 20;
SET hazard.top = '50';
SELECT count(*) FROM h WHERE id < current_setting('hazard.top')::int;
PREPARE p AS SELECT count(*) FROM h WHERE id < current_setting('hazard.top')::int;
SET plan_cache_mode = force_generic_plan;
EXECUTE p;
SET hazard.top = '60';
EXECUTE p;
DROP SCHEMA hazard_volatile CASCADE;
