\set warehouse random(1, :warehouses)
\set carrier random(1, 10)
SELECT * FROM hardmeter_tpcc_delivery(:warehouse::integer, :carrier::integer);
