\set warehouse random(1, :warehouses)
\set district random(1, 10)
\set customer random(1, 3000)
\set cents random(100, 500000)
SELECT * FROM hardmeter_tpcc_payment(:warehouse::integer, :district::integer, :warehouse::integer, :district::integer,
    :customer::integer, NULL, :cents / 100.0);
