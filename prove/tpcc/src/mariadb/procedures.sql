-- The five transactions of TPC-C as stored procedures of MariaDB: one call, one round trip.
--
-- Each begins a transaction and commits it or rolls it back. Rows that are read and then written are read FOR
-- UPDATE: under REPEATABLE READ a plain SELECT reads from the snapshot, and later writes of other sessions
-- would be lost. Rows are locked in one order: WAREHOUSE, DISTRICT, STOCK by warehouse and item, NEW-ORDER,
-- CUSTOMER.
--
-- For a client such as mariadb(1): the delimiter is //.
DELIMITER //

-- Clause 2.4.2. lines: [[item, supplying warehouse, quantity], ...]. Returns O_ID, or 0 if an item is unused:
-- then the transaction did all possible work and was rolled back (clause 2.4.2.3); and the total that the
-- terminal shows.
CREATE OR REPLACE PROCEDURE hardmeter_tpcc_new_order(
    IN w INT, IN d INT, IN c INT, IN line_count INT, IN all_local INT, IN order_lines TEXT)
MODIFIES SQL DATA
BEGIN
    DECLARE discount, w_rate, d_rate DECIMAL(5,4);
    DECLARE name VARCHAR(16);
    DECLARE credit CHAR(2);
    DECLARE this_order, quantity_left INT;
    DECLARE price, amount DECIMAL(6,2);
    DECLARE total DECIMAL(12,2) DEFAULT 0;
    DECLARE info CHAR(24);
    DECLARE item_data, stock_data VARCHAR(50);
    DECLARE unused INT DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT c_discount, c_last, c_credit, w_tax INTO discount, name, credit, w_rate
        FROM warehouse JOIN customer ON c_w_id = w_id WHERE w_id = w AND c_d_id = d AND c_id = c;
    SELECT d_next_o_id, d_tax INTO this_order, d_rate FROM district WHERE d_w_id = w AND d_id = d FOR UPDATE;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d;
    INSERT INTO orders VALUES (this_order, d, w, c, NOW(), NULL, line_count, all_local);
    INSERT INTO new_order VALUES (this_order, d, w);
    FOR line IN (
        SELECT number, item, supply, quantity
            FROM JSON_TABLE(order_lines, '$[*]' COLUMNS (
                number FOR ORDINALITY, item INT PATH '$[0]', supply INT PATH '$[1]', quantity INT PATH '$[2]')) entered
            ORDER BY supply, item, number)
    DO
        SET price = NULL;
        SET price = (SELECT i_price FROM item WHERE i_id = line.item);
        IF price IS NULL THEN
            SET unused = 1;
        ELSE
            SELECT i_data INTO item_data FROM item WHERE i_id = line.item;
            SELECT s_quantity, s_data,
                    ELT(d, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                        s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10)
                INTO quantity_left, stock_data, info
                FROM stock WHERE s_w_id = line.supply AND s_i_id = line.item FOR UPDATE;
            SET quantity_left = quantity_left - line.quantity + IF(quantity_left >= line.quantity + 10, 0, 91);
            UPDATE stock SET s_quantity = quantity_left, s_ytd = s_ytd + line.quantity, s_order_cnt = s_order_cnt + 1,
                    s_remote_cnt = s_remote_cnt + (line.supply <> w)
                WHERE s_w_id = line.supply AND s_i_id = line.item;
            SET amount = price * line.quantity;
            SET total = total + amount;
            INSERT INTO order_line
                VALUES (this_order, d, w, line.number, line.item, line.supply, NULL, line.quantity, amount, info);
        END IF;
    END FOR;
    IF unused THEN
        ROLLBACK;
        SELECT 0, NULL;
    ELSE
        COMMIT;
        SELECT this_order, ROUND(total * (1 - discount) * (1 + w_rate + d_rate), 2);
    END IF;
END //

-- Clause 2.5.2. By name if number is null: the middle one of the customers with this name, ordered by first
-- name.
CREATE OR REPLACE PROCEDURE hardmeter_tpcc_payment(
    IN w INT, IN d INT, IN c_w INT, IN c_d INT, IN number INT, IN name VARCHAR(16), IN amount DECIMAL(6,2))
MODIFIES SQL DATA
BEGIN
    DECLARE names, middle INT;
    DECLARE w_called, d_called VARCHAR(10);
    DECLARE balance DECIMAL(12,2);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
    SELECT w_name INTO w_called FROM warehouse WHERE w_id = w;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d;
    SELECT d_name INTO d_called FROM district WHERE d_w_id = w AND d_id = d;
    IF number IS NULL THEN
        SELECT COUNT(*) INTO names FROM customer WHERE c_w_id = c_w AND c_d_id = c_d AND c_last = name;
        SET middle = (names - 1) DIV 2;
        SELECT c_id INTO number FROM customer WHERE c_w_id = c_w AND c_d_id = c_d AND c_last = name
            ORDER BY c_first, c_id LIMIT 1 OFFSET middle;
    END IF;
    -- Assignments are evaluated from left to right; C_DATA depends on no column assigned before it.
    UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
            c_payment_cnt = c_payment_cnt + 1,
            c_data = IF(c_credit = 'BC', LEFT(CONCAT_WS(' ', c_id, c_d_id, c_w_id, d, w, amount, c_data), 500), c_data)
        WHERE c_w_id = c_w AND c_d_id = c_d AND c_id = number;
    SELECT c_balance INTO balance FROM customer WHERE c_w_id = c_w AND c_d_id = c_d AND c_id = number;
    IF balance IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'there is no such customer';
    END IF;
    INSERT INTO history VALUES (number, c_d, c_w, d, w, NOW(), amount, CONCAT(w_called, '    ', d_called));
    COMMIT;
    SELECT number, balance;
END //

-- Clause 2.6.2: the customer's last order, and its lines.
CREATE OR REPLACE PROCEDURE hardmeter_tpcc_order_status(IN w INT, IN d INT, IN number INT, IN name VARCHAR(16))
READS SQL DATA
BEGIN
    DECLARE names, middle INT;
    DECLARE last_order INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION READ ONLY;
    IF number IS NULL THEN
        SELECT COUNT(*) INTO names FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name;
        SET middle = (names - 1) DIV 2;
        SELECT c_id INTO number FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name
            ORDER BY c_first, c_id LIMIT 1 OFFSET middle;
    END IF;
    SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = number;
    SELECT o_id INTO last_order FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = number
        ORDER BY o_id DESC LIMIT 1;
    SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = w AND o_d_id = d AND o_id = last_order;
    SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
        FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = last_order;
    COMMIT;
END //

-- Clause 2.7.4. Returns the O_ID of each district, separated by commas; 0 if it had no order to deliver.
CREATE OR REPLACE PROCEDURE hardmeter_tpcc_delivery(IN w INT, IN carrier INT)
MODIFIES SQL DATA
BEGIN
    DECLARE this_order, buyer INT;
    DECLARE total DECIMAL(12,2);
    DECLARE orders_done VARCHAR(200) DEFAULT NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    FOR d IN 1..10 DO
        SET this_order = 0;
        FOR oldest IN (
            SELECT no_o_id FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE)
        DO
            SET this_order = oldest.no_o_id;
        END FOR;
        IF this_order > 0 THEN
            DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = this_order;
            SELECT o_c_id INTO buyer FROM orders WHERE o_w_id = w AND o_d_id = d AND o_id = this_order FOR UPDATE;
            UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = this_order;
            UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = this_order;
            SELECT SUM(ol_amount) INTO total FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = this_order;
            UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
                WHERE c_w_id = w AND c_d_id = d AND c_id = buyer;
        END IF;
        SET orders_done = CONCAT_WS(',', orders_done, this_order);
    END FOR;
    COMMIT;
    SELECT orders_done;
END //

-- Clause 2.8.2: items of the district's last 20 orders whose stock is below the threshold.
CREATE OR REPLACE PROCEDURE hardmeter_tpcc_stock_level(IN w INT, IN d INT, IN threshold INT)
READS SQL DATA
BEGIN
    DECLARE next_order INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION READ ONLY;
    SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = w AND d_id = d;
    SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
        WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_order - 20 AND ol_o_id < next_order
            AND s_quantity < threshold;
    COMMIT;
END //
