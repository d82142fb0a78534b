-- Row security and barriers: a function that reveals its arguments must not get rows that its caller may not read.
-- A condition that can fail is such a function. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE SCHEMA hazard_security;
SET search_path = hazard_security;
CREATE ROLE hazard_reader;
CREATE ROLE hazard_other;
GRANT USAGE ON SCHEMA hazard_security TO hazard_reader, hazard_other;
CREATE TABLE h (id int, owner text, secret int, v numeric(10,2));
INSERT INTO h SELECT i, CASE WHEN i % 3 = 0 THEN 'hazard_reader' ELSE 'hazard_other' END, i % 10, i FROM generate_series(1, 3000) i;
UPDATE h SET secret = 0 WHERE owner = 'hazard_other' AND id % 100 = 1;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 9) i;
ANALYZE h, u;
CREATE POLICY own ON h FOR SELECT USING (owner = current_user);
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON h, u TO hazard_reader, hazard_other;
CREATE FUNCTION tell(int, text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
$$ BEGIN IF $2 <> current_user THEN RAISE WARNING 'saw a row of %', $2; END IF; RETURN $1 >= 0; END $$;
CREATE FUNCTION tell_stable(int, text) RETURNS bool STABLE LANGUAGE plpgsql COST 0.0000001 AS
$$ BEGIN IF $2 <> current_user THEN RAISE WARNING 'saw a row of %', $2; END IF; RETURN $1 >= 0; END $$;
SET ccopt.force = on;
SET ccopt.buffer = force;

SELECT count(*) FROM h;
SET ROLE hazard_reader;
SELECT count(*), sum(v), min(owner), max(owner) FROM h;
SELECT owner, count(*) FROM h GROUP BY owner;
SELECT count(*) FROM h WHERE tell(secret, owner);
SELECT count(*) FROM h WHERE tell_stable(secret, owner) AND v > 100;
-- what can fail: a division (rows of the other with secret 0 would divide by it), a cast, an overflow
SELECT count(*) FROM h WHERE secret <> 0 AND 100 / secret >= 10;
SELECT count(*) FROM h WHERE 100 / (secret + (owner = 'hazard_reader')::int) >= 10;
SELECT count(*) FROM h WHERE (CASE WHEN owner = 'hazard_reader' THEN '1' ELSE owner END)::int = 1;
SELECT count(*) FROM h JOIN u ON u.k = h.secret WHERE tell_stable(h.secret, h.owner);
SELECT u.name, count(*) FROM h JOIN u ON u.k = h.secret GROUP BY u.name ORDER BY 1;
SELECT count(*) FROM u WHERE EXISTS (SELECT 1 FROM h WHERE h.secret = u.k AND tell_stable(h.secret, h.owner));
RESET ROLE;
-- one plan, several roles
PREPARE p AS SELECT owner, count(*), sum(v) FROM h WHERE v > $1 GROUP BY owner ORDER BY owner;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(10);
SET ROLE hazard_reader;
EXECUTE p(10);
SET ROLE hazard_other;
EXECUTE p(10);
RESET ROLE;
EXECUTE p(10);
RESET plan_cache_mode;
-- off where it is refused, forced on the owner, restrictive, with a subquery
SET ROLE hazard_reader;
SET row_security = off;
SELECT count(*) FROM h;
RESET row_security;
RESET ROLE;
CREATE POLICY even ON h AS RESTRICTIVE FOR SELECT USING (id IN (SELECT k * 2 FROM u));
SET ROLE hazard_reader;
SELECT id, secret, v FROM h WHERE tell_stable(secret, owner) ORDER BY id;
RESET ROLE;
DROP POLICY even ON h;

-- views with a barrier
CREATE VIEW mine WITH (security_barrier) AS SELECT * FROM h WHERE owner = 'hazard_reader' AND v > 50;
CREATE VIEW open_view AS SELECT * FROM h WHERE secret <> 0;
GRANT SELECT ON mine, open_view TO hazard_other;
SET ROLE hazard_other;
SELECT count(*) FROM mine;
SELECT count(*) FROM mine WHERE tell_stable(secret, 'hazard_other');
SELECT count(*) FROM mine WHERE 100 / (v - 40) > 0;
SELECT secret, count(*) FROM mine WHERE v < 1000 GROUP BY secret ORDER BY secret;
SELECT count(*) FROM mine m JOIN u ON u.k = m.secret WHERE tell_stable(m.secret, 'hazard_other');
RESET ROLE;
-- rights on columns and tables are checked before the first row
REVOKE SELECT ON h FROM hazard_other;
GRANT SELECT (id, v) ON h TO hazard_other;
SET ROLE hazard_other;
SELECT count(v) FROM h;
SELECT count(secret) FROM h;
SELECT count(*) FROM h WHERE owner = 'x';
RESET ROLE;
-- nor do statistics leak rows: an operator that is not leakproof is not applied to the most common values
CREATE FUNCTION leak(int, int) RETURNS bool LANGUAGE plpgsql AS
$$ BEGIN RAISE WARNING 'leak %', $1; RETURN $1 < $2; END $$;
CREATE OPERATOR <<< (PROCEDURE = leak, LEFTARG = int, RIGHTARG = int, RESTRICT = scalarltsel);
GRANT SELECT ON h TO hazard_other;
SET ROLE hazard_other;
SELECT count(*) FROM h WHERE secret <<< 0 AND id < 0;
RESET ROLE;
DROP SCHEMA hazard_security CASCADE;
DROP ROLE hazard_reader;
DROP ROLE hazard_other;
