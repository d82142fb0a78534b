-- Included by the tests batch_agg*. same() runs a query with BatchAgg required and without ccopt, and compares the rows
-- as text, since 1.5 and 1.50 are equal and not the same.
CREATE FUNCTION outcome(query text, into_table text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TEMP TABLE %s AS SELECT q::text AS line FROM (%s) q', into_table, query);
  RETURN NULL;
EXCEPTION WHEN numeric_value_out_of_range OR data_exception THEN
  RETURN SQLERRM;
END $$;
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  stock_error text; our_error text; n int; difference text;
BEGIN
  DROP TABLE IF EXISTS stock, ours;
  PERFORM set_config('ccopt.enabled', 'off', true);
  stock_error := outcome(query, 'stock');
  PERFORM set_config('ccopt.enabled', 'on', true);
  PERFORM set_config('ccopt.force', 'on', true);
  PERFORM set_config('ccopt.require', 'BatchAgg', true);
  our_error := outcome(query, 'ours');
  PERFORM set_config('ccopt.require', '', true);
  PERFORM set_config('ccopt.force', 'off', true);
  IF stock_error IS DISTINCT FROM our_error THEN
    RETURN format('DIFFERENT: stock %s, ours %s', stock_error, our_error);
  ELSIF stock_error IS NOT NULL THEN
    RETURN 'same error: ' || stock_error;
  END IF;
  SELECT count(*) INTO n FROM stock;
  SELECT string_agg(d, '; ') INTO difference FROM (
    (SELECT 'stock ' || line AS d FROM stock EXCEPT ALL SELECT 'stock ' || line FROM ours LIMIT 5)
    UNION ALL
    (SELECT 'ours ' || line FROM ours EXCEPT ALL SELECT 'ours ' || line FROM stock LIMIT 5)) x;
  RETURN coalesce('DIFFERENT: ' || difference, n || ' rows, the same');
END $$;
