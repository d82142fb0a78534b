\set warehouse random(1, :warehouses)
\set district random(1, 10)
\set threshold random(10, 20)
SELECT * FROM hardmeter_tpcc_stock_level(:warehouse::integer, :district::integer, :threshold::integer);
