-- BatchAgg against stock: every aggregate and type, and what does not fit numbers.
-- same() is lib/batch_agg_same.sql's.
SET client_min_messages = warning;
CREATE SCHEMA batch_agg;
SET search_path = batch_agg;

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
CREATE TABLE empty (LIKE n);
ANALYZE n, empty;

-- aggregates and types
SELECT same('SELECT count(*), count(i2), count(i4), count(i8), count(d), count(t), count(f), count(1), count(u) FROM n');
SELECT same('SELECT sum(i2), sum(i4), sum(i8), sum(d), sum(e), sum(w), sum(z) FROM n');
SELECT same('SELECT avg(i2), avg(i4), avg(i8), avg(d), avg(e), avg(w), avg(z) FROM n');
SELECT same('SELECT min(i2), min(i4), min(i8), min(d), min(w), min(z), min(day), min(ts), min(tz), min(o) FROM n');
SELECT same('SELECT max(i2), max(i4), max(i8), max(d), max(w), max(z), max(day), max(ts), max(tz), max(o) FROM n');
SELECT same('SELECT c1, count(*), sum(i2), avg(i4), sum(i8), avg(i8), sum(d), avg(d), min(d), max(w), min(day), max(ts), max(o)
             FROM n GROUP BY c1');
SELECT same('SELECT id, sum(i2), avg(i4), sum(i8), sum(d), avg(w), min(d), max(w), min(day), count(d) FROM n GROUP BY id');
SELECT same('SELECT z, sum(d + i4), avg(d) * 2 + sum(e), max(i4) - min(i4) FROM n GROUP BY z');
-- expressions: display scales, casts, constants, minus
SELECT same('SELECT sum(d * e), sum(d * (1 - e)), sum(d * (1 - e) * (1 + e)), avg(d * e), sum(-d), sum(+d), sum(e - d), sum(d + 1.5000)
             FROM n');
SELECT same('SELECT b, sum(d * e), sum(d * (1 - e)), avg(w * e), min(d * e), max(d - w), sum(i4 * d), sum(i2 + i4), sum(i4::int8 * i2),
             avg(i8 - i4), sum(z * 0.001), sum(d * 0), min(0 * d), sum(i8 * 1.0) FROM n GROUP BY b');
SELECT same('SELECT sum(i4::numeric * d), sum(i2::int4 * i4), sum(-i4), min(-i8), count(d * e), count(i4 + i2) FROM n');
SELECT same('SELECT sum(i4 + (SELECT NULL::int)), sum(d * (SELECT NULL::numeric)), avg(d * NULL::numeric) FROM n');
SELECT same('SELECT sum(1), sum(2.50), avg(3), min(4), max(5.10) FROM n');
SELECT same('SELECT sum(1), sum(2.50), avg(3), min(4), max(5.10), count(*), count(1) FROM empty');
-- nothing
SELECT same('SELECT count(*), count(d), sum(d), avg(d), min(d), max(day), sum(i4), avg(i8), sum(d * e) FROM empty');
SELECT same('SELECT c1, count(*), sum(d) FROM empty GROUP BY c1');
SELECT same('SELECT count(*), sum(d) FROM n WHERE id < 0');
SELECT same('SELECT sum(d), min(w), count(w) FROM n WHERE w IS NULL');
SELECT same('SELECT c1, sum(d), min(w), avg(w), count(w) FROM n WHERE w IS NULL GROUP BY c1');
SELECT same('SELECT count(*), sum(i4) FROM empty HAVING count(*) > 0');
SELECT same('SELECT 1 FROM n HAVING sum(i4) IS NOT NULL');

-- grouping: each type of key, NULL, several keys
SELECT same('SELECT i2, count(*), sum(d) FROM n GROUP BY i2');
SELECT same('SELECT i8, count(*) FROM n GROUP BY i8');
SELECT same('SELECT d, count(*), sum(d) FROM n GROUP BY d');
SELECT same('SELECT u, count(*) FROM n GROUP BY u');
SELECT same('SELECT f, count(*) FROM n GROUP BY f');
SELECT same('SELECT day, ts, count(*) FROM n GROUP BY day, ts');
SELECT same('SELECT tz, o, count(*) FROM n GROUP BY tz, o');
SELECT same('SELECT b, c, count(*), max(id) FROM n GROUP BY b, c');
SELECT same('SELECT c1, b, count(*) FROM n GROUP BY c1, b');
SELECT same('SELECT c, count(*) FROM n GROUP BY c');
SELECT same('SELECT c10, v, t, sum(d) FROM n GROUP BY c10, v, t');
SELECT same('SELECT c1, c10, i2, d, t, b, f, u, count(*) FROM n GROUP BY c1, c10, i2, d, t, b, f, u');
SELECT same('SELECT c1 FROM n GROUP BY c1');
SELECT same('SELECT i4 % 10, extract(year FROM day), count(*) FROM n GROUP BY 1, 2');
SELECT same('SELECT upper(t) || c1, count(*), sum(d) FROM n GROUP BY upper(t) || c1');
SELECT same('SELECT lower(v) || ''x'', c1, sum(d) + i2 FROM n GROUP BY v, c1, i2');
-- one byte, not one byte, blank, not ASCII
CREATE TABLE bytes (k char(1), k2 varchar(1), n int);
INSERT INTO bytes SELECT (ARRAY['a', 'é', '', ' ', 'b', NULL, '~', 'ü'])[i % 8 + 1], (ARRAY['a', ' ', '', 'é', NULL])[i % 5 + 1], i
  FROM generate_series(1, 4000) i;
SELECT same('SELECT ascii(k), k, k2, count(*), sum(n) FROM bytes GROUP BY k, k2');
SELECT same('SELECT k, octet_length(k2), sum(n) FROM bytes GROUP BY k, k2');
SELECT same('SELECT k, count(*), sum(n) FROM bytes GROUP BY k');
-- blanks at the end: char(n) does not see them, text does; which of the equal values is shown is that of the first row
CREATE TABLE blanks (p char(6), t text COLLATE "C", n int);
INSERT INTO blanks SELECT CASE i % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'x  ' ELSE 'x y' END,
                          CASE i % 4 WHEN 0 THEN 'x' WHEN 1 THEN 'x ' WHEN 2 THEN '' ELSE ' ' END, i FROM generate_series(1, 3000) i;
SELECT same('SELECT p, count(*), sum(n) FROM blanks GROUP BY p');
SELECT same('SELECT t, length(t), count(*), sum(n) FROM blanks GROUP BY t');
SELECT same('SELECT t::char(6), count(*) FROM blanks GROUP BY 1');
-- toasted and compressed keys
CREATE TABLE wide (k text, n int);
INSERT INTO wide SELECT repeat(chr(97 + i % 3), 5000 + i % 2) || i % 2, i FROM generate_series(1, 600) i;
ALTER TABLE wide ALTER k SET STORAGE external;
INSERT INTO wide SELECT repeat(chr(97 + i % 3), 5000 + i % 2) || i % 2, i FROM generate_series(1, 600) i;
SELECT same('SELECT k, count(*), sum(n) FROM wide GROUP BY k');
SELECT same('SELECT md5(k), m FROM (SELECT k, max(n) AS m FROM wide GROUP BY k) s');
-- a collation that is not deterministic goes through its own functions
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE cased (k text COLLATE caseless, n int);
INSERT INTO cased SELECT (ARRAY['abc', 'ABC', 'Abd'])[i % 3 + 1], i FROM generate_series(1, 300) i;
SELECT same('SELECT lower(k), count(*), sum(n) FROM cased GROUP BY k');

-- columns that follow from the primary key
CREATE TABLE pk (id int PRIMARY KEY, name text, price numeric(8,2), n int);
INSERT INTO pk SELECT i, 'name ' || i, i / 10.0, i % 5 FROM generate_series(1, 500) i;
INSERT INTO pk VALUES (501, NULL, NULL, NULL);
ANALYZE pk;
SELECT same('SELECT p.id, p.name, p.price, upper(p.name), sum(n.d), count(*) FROM pk p JOIN n ON n.i2 = p.n GROUP BY p.id');

-- FILTER
SELECT same('SELECT count(*) FILTER (WHERE d > 0), sum(d) FILTER (WHERE i4 < 100), avg(e) FILTER (WHERE c1 = ''A''),
             min(i8) FILTER (WHERE t LIKE ''text 1%''), sum(d * e) FILTER (WHERE b), count(t) FILTER (WHERE day < ''1995-06-01'') FROM n');
SELECT same('SELECT c1, count(*) FILTER (WHERE d > 0), sum(d) FILTER (WHERE i4 < 100), avg(e) FILTER (WHERE c10 = ''k1''),
             max(w) FILTER (WHERE v IN (''v1'', ''v2'')), sum(d) FILTER (WHERE d IS NULL), sum(i4) FILTER (WHERE i4 IS NOT NULL AND NOT b),
             count(*) FILTER (WHERE NULL), sum(d) FROM n GROUP BY c1');
-- CASE
SELECT same('SELECT sum(CASE WHEN t LIKE ''text 1%'' THEN d * (1 - e) ELSE 0 END), sum(d * (1 - e)) FROM n');
SELECT same('SELECT c1, sum(CASE WHEN c10 = ''k1'' OR c10 = ''k2'' THEN 1 ELSE 0 END), sum(CASE WHEN c10 <> ''k1'' THEN 1 ELSE 0 END),
             sum(CASE WHEN d > 0 THEN d * e WHEN d < -50 THEN d WHEN d < -40 THEN NULL ELSE 0 END),
             avg(CASE WHEN d > 0 THEN d * e ELSE 1 END), count(CASE WHEN i4 > 0 THEN 1 END), count(CASE WHEN i4 > 0 THEN t END), count(CASE WHEN i4 > 0 THEN ''x'' WHEN b THEN NULL ELSE t END),
             min(CASE WHEN b THEN i4 ELSE i2 END), max(CASE WHEN b THEN day END), sum(CASE WHEN b THEN d END) FROM n GROUP BY c1');
-- the display scale is that of the arms that came
SELECT same('SELECT i4, sum(CASE WHEN d > 0 THEN d * e ELSE 0 END), avg(CASE WHEN d > 0 THEN d * e ELSE 0 END),
             sum(CASE WHEN d > 0 THEN d ELSE e * e * e END) FROM n GROUP BY i4');
SELECT same('SELECT sum(CASE WHEN d > 99999 THEN d * e ELSE 0 END), sum(CASE WHEN d > 99999 THEN d * e ELSE 0.0 END) FROM n');
SELECT same('SELECT sum(CASE WHEN b THEN d ELSE 0 END) FILTER (WHERE i4 > 0), count(CASE WHEN b THEN d END) FILTER (WHERE e < 0.5) FROM n');

-- HAVING, expressions over aggregates, sub-selects
SELECT same('SELECT c10, sum(d) FROM n GROUP BY c10 HAVING sum(d) > 0');
SELECT same('SELECT i2, sum(d) * 2 + count(*) FROM n GROUP BY i2 HAVING sum(d) > (SELECT avg(d) * 10 FROM n) OR i2 IS NULL');
SELECT same('SELECT i2, count(*) FROM n GROUP BY i2 HAVING EXISTS (SELECT 1 FROM pk WHERE pk.id = i2 AND pk.price < max(n.e) * 10)');
SELECT same('SELECT i2, (SELECT name FROM pk WHERE pk.id = max(n.i2)), sum(e) FROM n GROUP BY i2');
SELECT same('SELECT sum(s) FROM (SELECT c10, sum(i4) AS s FROM n GROUP BY c10) q');
SELECT same('SELECT cnt, count(*) FROM (SELECT i2, count(d) AS cnt FROM n GROUP BY i2) q GROUP BY cnt');
SELECT same(format('SELECT z, count(*), sum(d), min(i4), max(e), sum(i2) FROM n GROUP BY z HAVING %s', h)) FROM unnest(ARRAY[
  'sum(d) > 0.001', 'sum(d) <= -12.3456789', '100 < sum(d)', '0 >= sum(i2)', 'sum(i2) <> 0', 'count(*) = 65', '65 >= count(*)', 'count(d) < 61',
  'min(i4) = -49990 OR sum(d) > 5', 'min(i4) > -49900 AND max(e) >= 0.98', 'max(e) = 0.990', 'sum(d) > NULL', 'sum(d) > (SELECT avg(sum) FROM (SELECT sum(d) FROM n GROUP BY z) s)',
  'sum(d) > 1e40', 'sum(d) < ''NaN''', 'sum(d) < ''Infinity'' AND avg(d) > 0', 'sum(d) > 0.1234567890123456789012', 'sum(d * e) > 3', 'count(*) > 65::int8', 'sum(i8) > 1e10']) h;
SELECT same('SELECT i4, sum(d), min(w) FROM n GROUP BY i4 HAVING sum(d) > 0 AND min(w) < 0.5');
-- a sub-select that fails is evaluated only for groups that reach it
SELECT same('SELECT z, sum(d) FROM n GROUP BY z HAVING avg(d) > 1000000 AND sum(d) > (SELECT 1 / (count(*) - 5000) FROM n)');
SELECT same('SELECT z, sum(d) FROM n GROUP BY z HAVING sum(d) > (SELECT 1 / (count(*) - 5000) FROM n)');
-- joins, other inputs
SELECT same('SELECT p.name, sum(n.d * (1 - n.e)), count(*) FROM n JOIN pk p ON p.id = n.i2 WHERE n.d > 0 GROUP BY p.name');
SELECT same('SELECT p.id, count(n.id), sum(n.w) FROM pk p LEFT JOIN n ON n.i4 = p.id GROUP BY p.id');
SELECT same('SELECT g % 10, count(*), sum(g), avg(g), max(g) FROM generate_series(1, 5000) g GROUP BY 1');
SELECT same('SELECT k, sum(x), min(x) FROM (VALUES (1, 1.50::numeric(6,2)), (2, 3.25), (1, NULL), (NULL, 7.75)) v (k, x) GROUP BY k');
SELECT same('SELECT c1, sum(d), sum(x) FROM (SELECT c1, d, i4 * 2 AS x FROM n UNION ALL SELECT c1, d, i4 FROM n WHERE b) q GROUP BY c1');
