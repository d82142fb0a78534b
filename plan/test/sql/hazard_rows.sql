-- Rows in all the forms that they have on a page, and all ways to read them. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_rows;
SET search_path = hazard_rows;
SET ccopt.force = on;
SET ccopt.buffer = force;

-- columns added and dropped: rows that are shorter than the table, with missing values, of every kind of length
CREATE TABLE h (a int, gone text, b numeric(8,2));
INSERT INTO h SELECT i, 'gone ' || i, i / 4.0 FROM generate_series(1, 1500) i;
ALTER TABLE h DROP COLUMN gone;
ALTER TABLE h ADD COLUMN c int DEFAULT 7, ADD COLUMN d numeric(5,1) DEFAULT 2.5, ADD COLUMN e text DEFAULT 'missing', ADD COLUMN f char(5) DEFAULT 'm',
  ADD COLUMN g date DEFAULT '1995-05-05', ADD COLUMN n int, ADD COLUMN big text DEFAULT repeat('x', 300);
INSERT INTO h SELECT i, i / 4.0, i, i % 50, 'own', 'o', '1996-06-06', i, 'small' FROM generate_series(1501, 3000) i;
SELECT count(*), sum(b), sum(c), sum(d), count(n), sum(n), min(e), max(e), min(f), max(g), min(length(big)), max(length(big)) FROM h;
SELECT e, f, g, count(*), sum(d) FROM h GROUP BY e, f, g ORDER BY e;
SELECT count(*) FROM h WHERE e = 'missing' AND f = 'm' AND g < '1996-01-01' AND d = 2.5 AND n IS NULL AND c = 7;
SELECT h.a, h.d, h.f FROM h JOIN (VALUES (7, 1), (2999, 2)) v(c, x) ON v.c = h.c WHERE h.a IN (1, 1500, 2999) ORDER BY h.a;
SELECT h FROM h WHERE a IN (3, 2000) ORDER BY a;
ALTER TABLE h ALTER COLUMN d SET DEFAULT 9.9;
INSERT INTO h (a) VALUES (3001);
SELECT d, e, n FROM h WHERE a IN (1, 3001) ORDER BY a;
ALTER TABLE h DROP COLUMN a;
SELECT count(*), sum(c) FROM h WHERE d < 10;
UPDATE h SET e = NULL WHERE c = 7;
SELECT count(*), count(e), sum(d) FROM h;

-- whole rows, system columns, generated and composite ones, domains
CREATE TYPE pair AS (x int, y numeric(6,2));
CREATE DOMAIN money_like AS numeric(10,2) CHECK (VALUE >= 0);
CREATE TABLE w (id int, p pair, m money_like, twice numeric(12,2) GENERATED ALWAYS AS (m * 2) STORED, arr int[]);
INSERT INTO w (id, p, m, arr) SELECT i, ROW(i % 5, i / 4.0)::pair, i, ARRAY[i, i % 3] FROM generate_series(1, 2000) i;
SELECT w FROM w WHERE id = 5;
SELECT w.*::text FROM w WHERE id = 6;
SELECT (p).x, count(*), sum((p).y), sum(m), sum(twice), sum(arr[2]) FROM w GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM w WHERE m > 1990 AND (p).x = 3 AND twice < 3994;
SELECT count(*) FROM w WHERE w IS NOT NULL AND w.p IS NOT NULL AND w = ROW(5, ROW(0, 1.25), 5, 10, '{5,2}')::w;
SELECT row_to_json(w) FROM w WHERE id = 9;
SELECT ctid, tableoid::regclass, cmin, xmax, id FROM w WHERE m < 3 ORDER BY id;
SELECT count(*) FROM w WHERE ctid = '(0,1)' OR tableoid <> 'w'::regclass OR xmin::text = '0';
SELECT count(DISTINCT xmin::text), count(DISTINCT (ctid::text::point)[0]) > 5 FROM w WHERE m > 0;
SELECT m FROM w WHERE m > -1 ORDER BY m LIMIT 1;

-- long values: short headers, compressed, out of line; unchanged, detoasted in quals, keys, arguments
CREATE TABLE l (id int, t text, k text, b bytea);
ALTER TABLE l ALTER COLUMN b SET STORAGE EXTERNAL;
INSERT INTO l SELECT i, repeat(chr(97 + i % 3), CASE i % 4 WHEN 0 THEN 10 WHEN 1 THEN 126 WHEN 2 THEN 5000 ELSE 100000 END),
  repeat(chr(97 + i % 2), CASE i % 2 WHEN 0 THEN 3 ELSE 4000 END), decode(repeat('ab', 3000), 'hex') FROM generate_series(1, 200) i;
SELECT length(t) AS n, count(*), min(md5(t)), max(md5(t)), sum(length(b)) FROM l GROUP BY 1 ORDER BY 1;
SELECT md5(k), count(*), md5(max(t)), md5(min(t)) FROM l GROUP BY k ORDER BY 1;
SELECT count(*) FROM l WHERE t = repeat('b', 5000) OR t LIKE 'c%c' OR k LIKE '%bbbb%';
SELECT count(*), sum(length(a.t)) FROM l a JOIN l b ON a.k = b.k AND a.t = b.t;
SELECT md5(string_agg(t, '' ORDER BY id)) FROM l;
SELECT id, length(t), length(k) FROM l WHERE id < 5 ORDER BY id;

-- versions: updates in place, chains, dead rows, rolled back, locked; frozen
CREATE TABLE v (id int, x numeric(10,2)) WITH (fillfactor = 50);
INSERT INTO v SELECT i, i FROM generate_series(1, 2000) i;
UPDATE v SET x = x + 1 WHERE id % 2 = 0;
UPDATE v SET x = x + 1 WHERE id % 4 = 0;
UPDATE v SET x = x + 1 WHERE id % 4 = 0;
DELETE FROM v WHERE id % 10 = 7;
BEGIN; UPDATE v SET x = 0; ROLLBACK;
BEGIN; SAVEPOINT s; DELETE FROM v; ROLLBACK TO s; SELECT count(*), sum(x) FROM v; COMMIT;
SELECT count(*) FROM (SELECT FROM v WHERE id % 3 = 0 FOR SHARE) s;
SELECT count(*), sum(x), min(x), max(x) FROM v;
VACUUM v;
SELECT count(*), sum(x), min(x), max(x) FROM v;
VACUUM (FREEZE) v;
DELETE FROM v WHERE id > 1990;
SELECT count(*), sum(x), min(x), max(x) FROM v;
CREATE INDEX v_i ON v (id);
CLUSTER v USING v_i;
SELECT count(*), sum(x), min(x), max(x) FROM v;

-- many columns, none, one of each alignment
DO $$ BEGIN EXECUTE 'CREATE TABLE wide (' || (SELECT string_agg(format('c%s %s', i, (ARRAY['int', 'numeric(10,2)', 'text', 'char(3)', 'int8', 'bool', 'date', 'int2', '"char"'])[i % 9 + 1]), ', ')
  FROM generate_series(1, 400) i) || ')'; END $$;
INSERT INTO wide (c1, c9, c398, c399, c400) SELECT i, i, 1, 'x', i FROM generate_series(1, 1200) i;
INSERT INTO wide (c2, c3, c5, c400) SELECT 't', 'c3', true, i FROM generate_series(1, 1200) i;
SELECT count(*), sum(c1), sum(c9), max(c398), min(c399), sum(c400) FROM wide;
SELECT c2, c5, count(*), sum(c400) FROM wide WHERE c400 > 3 GROUP BY c2, c5 ORDER BY c2;
CREATE TABLE no_columns ();
INSERT INTO no_columns DEFAULT VALUES;
INSERT INTO no_columns SELECT FROM generate_series(1, 1999);
SELECT count(*) FROM no_columns;
SELECT count(*) FROM no_columns a, no_columns b;
SELECT FROM no_columns LIMIT 1;
CREATE TABLE nothing (a int, b numeric(5,2), c text);
SELECT count(*), sum(a), sum(b), max(c), avg(b) FROM nothing;
SELECT c, count(*) FROM nothing GROUP BY c;
SELECT * FROM nothing a FULL JOIN nothing b ON a.a = b.a;
SELECT count(*), count(w.id) FROM w LEFT JOIN nothing ON nothing.a = w.id;
DROP SCHEMA hazard_rows CASCADE;
